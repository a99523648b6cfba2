import dataclasses
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.report import error_over_time, forecast_week, pit_histograms, save_figures, uncertainty_split
from latenttrack.report.canvas import GREY, PALETTE, colours, png, with_unit

FIGURES = (forecast_week, error_over_time, pit_histograms, uncertainty_split)


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes if axes.axison]


def png_size(data):
    """Width and height of a PNG file, after checking its checksums and that all its rows are there."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        chunks[kind] = chunks.get(kind, b"") + body
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 4 * width)
    assert b"IEND" in chunks
    return width, height


def test_files(all_models, tmp_path):
    directory = tmp_path / "new" / "figures"
    paths = save_figures(all_models[:2], directory)
    assert [path.name for path in paths] == [f"{draw.__name__}.png" for draw in FIGURES]
    assert sorted(directory.iterdir()) == sorted(paths)
    for path in paths:
        assert png_size(path.read_bytes())[0] == 1350


def test_a_directory_that_cannot_be_made_is_named(all_models, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LatentTrackError, match=r"cannot make the folder .*file.*choose another place"):
        save_figures(all_models[:1], tmp_path / "file")


def test_forecast_week_shows_one_week_of_three_models(all_models):
    figure = forecast_week(all_models)
    assert titles(figure) == ["lt-structured", "vrnn", "dssm"]
    assert figure.axes[0].get_title(loc="right").startswith("JFK, 2013-10-")
    for axes in figure.axes:
        mean, labels = axes.lines
        assert len(mean.get_xdata()) == len(labels.get_xdata()) == 168
        assert len(axes.collections) == 1
        assert axes.get_ylabel() == "temperature (°C)"
    assert {tuple(axes.get_ylim()) for axes in figure.axes} == {figure.axes[0].get_ylim()}


def test_forecast_week_shows_the_first_seed(fake, steps):
    records = fake(**steps, seeds=3)
    mean, labels = forecast_week([records]).axes[0].lines
    rows = mean.get_xdata().astype(int)
    np.testing.assert_array_equal(mean.get_ydata(), records.steps["mean"][0, rows])
    np.testing.assert_array_equal(labels.get_ydata(), records.y[rows])


def test_named_models_are_shown(all_models):
    for draw in (forecast_week, error_over_time):
        assert titles(draw(all_models, ["rls", "bbb"])) == ["rls", "bbb"]


def test_a_wild_band_does_not_flatten_the_labels(fake, steps):
    wild = fake("wild", **steps, width=1000.0)
    low, high = forecast_week([fake("a", **steps), wild]).axes[0].get_ylim()
    assert high - low < 3 * np.ptp(steps["y"])


def test_error_and_expected_error_agree_for_a_calibrated_model(fake, steps):
    figure = error_over_time([fake("right", **steps, seeds=30), fake("proud", **steps, seeds=30, width=0.5)])
    for axes, ratio in zip(figure.axes, (1.0, 2.0), strict=True):
        made, expected = (line.get_ydata() for line in axes.lines)
        # root mean square of 30 seeds x 60 steps: standard error 1 / sqrt(2 n); one window in the midst
        assert made[300] / expected[300] == pytest.approx(ratio, rel=5 / np.sqrt(2 * 30 * 60))
    assert figure.axes[0].get_ylim()[0] == 0


def test_pit_histograms_show_every_model(all_models):
    figure = pit_histograms(all_models, bins=10)
    assert titles(figure) == [entry.model for entry in all_models]
    for axes in figure.axes:
        bars = [patch for patch in axes.patches if patch.get_width() == pytest.approx(0.09)]
        assert len(bars) == 10
        assert sum(bar.get_height() for bar in bars) == pytest.approx(10)
        assert axes.lines[0].get_ydata()[0] == 1


def test_tall_bars_are_cut_and_carry_their_height(fake, steps):
    axes = pit_histograms([fake(**steps, width=0.2)]).axes[0]
    tall = [f"{bar.get_height():.1f}" for bar in axes.patches if bar.get_height() > axes.get_ylim()[1]]
    assert len(tall) == 2
    assert [text.get_text() for text in axes.texts] == tall


def test_places_without_a_model_are_empty(all_models):
    figure = pit_histograms(all_models[:5])
    assert len(figure.axes) == 6
    assert len(titles(figure)) == 5


def test_uncertainty_split_shows_latent_track_and_every_share(all_models):
    figure = uncertainty_split(all_models)
    assert titles(figure) == ["lt-structured", "lt-unstructured", "epistemic share"]
    assert [len(axes.collections) for axes in figure.axes] == [2, 2, 0]
    assert figure.axes[0].get_ylabel() == "variance (°C²)"
    shares = figure.axes[-1]
    assert [label.get_text() for label in shares.get_yticklabels()] == [entry.model for entry in all_models]
    assert shares.patches[0].get_width() == pytest.approx(7.5, rel=0.05)  # 10 % times 0.5 to 1


@pytest.mark.parametrize("draw", FIGURES)
def test_only_references_one_seed_without_a_clock(draw, fake, steps):
    records = [fake(name, **steps, seeds=1, epistemic=0.0) for name in ("last-label", "rls")]
    figure = draw(records)
    assert titles(figure)[:2] == ["last-label", "rls"]
    png_size(png(figure))
    if draw is not pit_histograms:
        assert figure.axes[1].get_xlabel() == "step"


@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_that_broke_down_does_not_spoil_the_figure(draw, bad, fake, steps):
    broken = fake("lt-broken", **steps)
    for values in broken.steps.values():
        values[:] = bad
    figure = draw([broken, fake("fine", **steps)])
    png_size(png(figure))
    assert np.isfinite(figure.axes[1].get_ylim()).all()


@pytest.mark.parametrize("draw", FIGURES)
def test_tiny_series(draw, fake, clock):
    tiny = {**clock, **{name: clock[name][:3] for name in ("time", "key", "y")}}
    png_size(png(draw([fake(**tiny, seeds=1)])))


def test_missing_labels_leave_gaps_in_labels_only(fake, clock):
    records = fake(**clock)
    hidden = dataclasses.replace(records, y=np.where(np.arange(len(records.y)) % 3, records.y, np.nan))
    mean, labels = forecast_week([hidden]).axes[0].lines
    assert np.isnan(labels.get_ydata()).sum() >= 56
    assert np.isfinite(mean.get_ydata()).all()


def test_legends_cover_nothing(all_models):
    for draw in FIGURES:
        figure = draw(all_models[:5])
        figure.canvas.draw()
        legend = figure.legends[0].get_window_extent()
        for axes in figure.axes:
            assert not legend.overlaps(axes.get_tightbbox())
        assert legend.x0 >= 0
        assert legend.x1 <= figure.bbox.x1


def test_every_model_keeps_its_colour(all_models):
    colour = colours(all_models)
    assert [colour[entry.model] for entry in all_models] == [*PALETTE, *[GREY] * 5]
    assert forecast_week(all_models, ["dssm"]).axes[0].lines[0].get_color() == PALETTE[3]
    assert error_over_time(all_models, ["dssm"]).axes[0].lines[0].get_color() == PALETTE[3]


@pytest.mark.parametrize(
    ("target", "expected"),
    [("load (MW)", "variance (MW²)"), ("pm10 (µg/m³)", "variance ((µg/m³)²)"), ("y", "variance of y")],
)
def test_units_of_variances(target, expected):
    assert with_unit("variance", target, squared=True) == expected


def test_names_are_no_formulas(fake, steps):
    for draw in FIGURES:
        png(draw([fake("a $x_{$ b", **{**steps, "target": "price $_$ of a rather long name ($/MWh)"})]))


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )


def test_importing_needs_neither_jax_nor_matplotlib():
    code = "import sys, latenttrack.report; print({'jax', 'equinox', 'matplotlib'} & set(sys.modules))"
    assert run(code).stdout == "set()\n"


def test_drawing_uses_no_pyplot(tmp_path):
    code = f"""
import sys
import numpy as np
from latenttrack.evaluation.records import FIELDS, Records
from latenttrack.report import save_figures
steps = {{name: np.full((1, 50), 0.5) for name in FIELDS}}
y = np.arange(50.0)
save_figures([Records("m", y, np.zeros(50, int), ("",), "y", y, steps)], {str(tmp_path)!r})
print({{"jax", "matplotlib.pyplot", "tkinter"}} & set(sys.modules))
"""
    result = run(code)
    assert (result.stdout, result.stderr) == ("set()\n", "")


def test_without_matplotlib_the_extra_is_named(monkeypatch, fake, steps):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in FIGURES:
        with pytest.raises(LatentTrackError, match=r'matplotlib.*pip install "latenttrack\[plots\]"'):
            draw([fake(**steps)])
