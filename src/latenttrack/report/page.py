"""One self-contained HTML page from a bench folder: tables, claims, figures, run facts; no network needed."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.claims import judge, judge_anomaly
from latenttrack.evaluation.published import TABLE
from latenttrack.report import bench_tables, canvas, facts
from latenttrack.report.gallery import Plate, plates
from latenttrack.report.loading import Bench, anomaly_rows, load_bench
from latenttrack.store.atomic import make_folder, write_bytes

PAGE, FIGURES = "report.html", "figures"
TEMPLATE = "page.html.jinja"
SHARP = 600_000  # bytes: an SVG up to this size goes into the page, of a larger one its PNG

Progress = Callable[[int, int, str], None]  # figures done, figures in all, name of the next


@dataclass(frozen=True)
class Picture:
    """A figure in the page."""

    name: str
    title: str
    caption: str
    source: str  # data: address


def write_report(folder: str | Path, progress: Progress | None = None) -> Path:
    """Write `report.html` and `figures/*.png`, `figures/*.svg` into a bench folder.

    Args:
        folder: written by `latenttrack bench`.
        progress: called before each figure is drawn, and once at the end.

    Returns:
        The page.

    Raises:
        LatentTrackError: If it is no bench folder, or damaged, or a library for drawing is missing.
    """
    bench = load_bench(folder)
    template = _template()
    make_folder(bench.folder / FIGURES)
    wanted = plates(bench)
    pictures = []
    for i, plate in enumerate(wanted):
        if progress is not None:
            progress(i, len(wanted), plate.name)
        pictures.append(_picture(plate, bench.folder / FIGURES))
    if progress is not None:
        progress(len(wanted), len(wanted), PAGE)
    path = bench.folder / PAGE
    write_bytes(path, template.render(**_content(bench, pictures)).encode())
    return path


def _picture(plate: Plate, folder: Path) -> Picture:
    """Draw a figure, write both of its files, and choose the one for the page."""
    figure = plate.draw()
    raster, vector = canvas.png(figure), canvas.svg(figure)
    write_bytes(folder / f"{plate.name}.png", raster)
    write_bytes(folder / f"{plate.name}.svg", vector)
    kind, data = ("svg+xml", vector) if len(vector) <= SHARP else ("png", raster)
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return Picture(plate.name, plate.title, plate.caption, source)


def _content(bench: Bench, pictures: list[Picture]) -> dict[str, Any]:
    """What the template needs."""
    claims = judge(bench.summary)
    claims.append(judge_anomaly(bench.models, anomaly_rows(bench)))
    if all(claim.holds is None for claim in claims):
        claims = []  # a bench of other models has nothing to say of the paper's
    return {
        "track": bench.summary["track"],
        "headline": facts.headline(bench),
        "run": " ".join(facts.what_was_run(bench)),
        "outcome": facts.what_came_out(bench),
        "colour": canvas.colours(bench.drawn),
        "scores": bench_tables.score_tables(bench),
        "measures": bench_tables.measure_table(bench),
        "peaks": bench_tables.peak_table(bench),
        "published": bench.published,
        "beside": bench.published and any(entry.model in TABLE for entry in bench.models),
        "seed": bench.summary["representative_seed"],
        "several": any(len(entry["seeds"]) > 1 for entry in bench.summary["models"].values()),
        "claims": claims,
        "verdict": facts.verdict(claims),
        "pictures": pictures,
        "facts": facts.run_facts(bench),
        "settings": facts.settings(bench),
    }


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise LatentTrackError(
            'the page needs jinja2, which is not installed: run pip install "latenttrack[plots]".'
        ) from None
    text = resources.files("latenttrack.report").joinpath(TEMPLATE).read_text(encoding="utf-8")
    # Names of models and times come from files: they are escaped, never markup.
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)
