"""docs/results.md is what its generator makes of docs/results/; and what it makes of made-up benches."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest
from made_up_results import save, write_bench

from latenttrack.errors import LatentTrackError
from latenttrack.models.registry import REFERENCES

ROOT = Path(__file__).parents[2]
GOOD = {
    "gru": (1.2, 1.0),
    "latent-track": (1.0, 1.0),
    "lt-deterministic": (1.2, 1.0),
    "lightgbm": (1.3, 0.8),
}


def benchmark(name):
    """A script of benchmarks/, without running it."""
    folder = ROOT / "benchmarks"
    sys.path.insert(0, str(folder))  # it has siblings
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    sys.path.remove(str(folder))
    return module


@pytest.fixture(scope="module")
def generator():
    return benchmark("results")


def kept(generator, tmp_path, track="next-hour", models=None, change=None, **options):
    """A made-up bench, as it is kept for the page."""
    folder = tmp_path / f"run-{track}-{len(list(tmp_path.iterdir()))}"
    summary = write_bench(folder, track, models or GOOD, **options)
    if change is not None:
        change(summary)
        save(folder, summary)
    path = generator.add(folder, tmp_path / "results")
    return json.loads(path.read_bytes())


def pair(difference, error):
    return {"difference": difference, "standard_error": error, "weeks_won": 0.75}


# The page in the repository


def test_the_page_is_made_from_its_results(generator):
    """Without results there is no page; with them it is exactly what they say, and its figure is there."""
    beside = (generator.ABLATIONS, generator.SAFETY_NET, generator.CORRECTION)
    tracks = [path for path in generator.RESULTS.glob("*.json") if path.name not in beside]
    assert generator.PAGE.exists() == bool(tracks)
    if tracks:
        assert generator.PAGE.read_text(encoding="utf-8") == generator.page(
            *generator.load(generator.RESULTS)
        )
        assert generator.FIGURE.read_bytes().startswith(b"\x89PNG")


def test_the_results_are_of_the_tracks_they_are_named_after(generator):
    runs = generator.load(generator.RESULTS)[0] if generator.PAGE.exists() else {}
    for track, run in runs.items():
        assert run["track"]["name"] == track
        assert run["looks"] >= 1
        assert len(run["models"]["latent-track"]["seeds"]) >= 3
        assert {"gru", "lt-deterministic", "lightgbm", *REFERENCES} <= set(run["models"])


def test_every_ablation_can_be_run_again(generator):
    ablations = benchmark("ablations")
    known = {ablations.UNCHANGED, ablations.POOLED, *ablations.CHANGES}
    assert {one["change"] for one in generator.load(generator.RESULTS).ablations} <= known


def test_every_reference_is_described(generator):
    assert set(REFERENCES) <= set(generator.MODELS)


def test_pooled_seeds_stand_beside_the_rivals_and_are_none(generator, tmp_path):
    kept(generator, tmp_path, models={**GOOD, "latent-track-pooled": (0.9, 1.0)})
    text = generator.page(*generator.load(tmp_path / "results"))
    short = next(line for line in text.splitlines() if line.startswith("| next-hour |"))
    cells = [cell.strip() for cell in short.strip("|").split("|")]
    assert cells[2] == "gru"
    # The errors are 0.9, 1.0 and 1.2 in size, and the NLL of a normal error moves with its logarithm.
    assert float(cells[1]) - float(cells[7]) == pytest.approx(math.log(1 / 0.9), abs=0.03)
    assert float(cells[8].split("&")[0]) == pytest.approx(math.log(1.2 / 0.9), abs=0.03)
    assert "With its seeds mixed, as `latenttrack fit` gives them, it is ahead of every rival" in text
    assert "ahead of every other model" in text  # the pooled seeds are not counted


# What is kept of a bench


def test_what_is_kept_is_small_and_has_the_calibration(generator, tmp_path):
    run = kept(generator, tmp_path)
    assert (run["looks"], run["seeds"]) == (1, 2)
    for name, entry in run["models"].items():
        assert len(entry["calibration"]["histogram"]) == 20
        assert sum(entry["calibration"]["histogram"]) == pytest.approx(20, abs=0.01)
        assert len(entry["calibration"]["coverage"]) == 11
        assert ("paired" in entry) == (name != "latent-track")
    assert "command" not in run
    # The coverage of 90 % is the one of the table.
    narrow = run["models"]["lightgbm"]
    assert narrow["calibration"]["coverage"][8] == pytest.approx(narrow["seeds"][0]["coverage_90"], abs=1e-4)


def test_looks_at_the_test_part_are_counted(generator, tmp_path):
    """The same scores again are no new look; others are; a number that is given is believed."""
    assert kept(generator, tmp_path)["looks"] == 1
    assert kept(generator, tmp_path)["looks"] == 1
    assert kept(generator, tmp_path, models=GOOD | {"rls": (2.0, 1.0)})["looks"] == 1
    assert kept(generator, tmp_path, models=GOOD | {"latent-track": (0.9, 1.0)})["looks"] == 2
    folder = tmp_path / "again"
    write_bench(folder, "next-hour", GOOD)
    path = generator.add(folder, tmp_path / "results", looks=7)
    assert json.loads(path.read_bytes())["looks"] == 7


@pytest.mark.parametrize(
    ("models", "change", "said"),
    [
        ({"gru": (1.0, 1.0)}, lambda s: None, "has no latent-track"),
        (GOOD, lambda s: s.update(command="latenttrack bench next-hour --rows=500"), "quick look"),
        (GOOD, lambda s: s["models"]["gru"].pop("paired"), "bench again"),
    ],
)
def test_benches_that_are_refused(generator, tmp_path, models, change, said):
    with pytest.raises(LatentTrackError, match=said):
        kept(generator, tmp_path, models=models, change=change)
    assert not list(tmp_path.glob("results/*.json"))


def test_without_results_one_is_told_what_to_do(generator, tmp_path):
    with pytest.raises(LatentTrackError, match="--add"):
        generator.load(tmp_path)


def test_the_command(generator, tmp_path, monkeypatch):
    """Adds a bench, writes the page and its figure; a mistake is told in a sentence."""
    for name, path in {"RESULTS": "results", "PAGE": "results.md", "FIGURE": "calibration.png"}.items():
        monkeypatch.setattr(generator, name, tmp_path / path)
    folder = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["results.py", "--add", str(folder), "--looks", "3"])
    with pytest.raises(SystemExit, match="there is no folder"):
        generator.main()
    assert not list(tmp_path.iterdir())
    write_bench(folder, "next-hour", GOOD)
    generator.main()
    assert json.loads((tmp_path / "results" / "next-hour.json").read_bytes())["looks"] == 3
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == generator.page(
        *generator.load(tmp_path / "results")
    )
    assert (tmp_path / "calibration.png").read_bytes().startswith(b"\x89PNG")


# What the page says


def test_a_page_of_made_up_benches(generator, tmp_path):
    def chosen(summary):
        lead = summary["models"]["latent-track"]
        lead["choices"] = ["Daily pattern found.", "Anchor: RLS."]
        lead["weights"] = {"latent-track": 0.9, "rls-t": 0.1}

    kept(generator, tmp_path, "six-hours", horizon=6, delay=6)
    kept(generator, tmp_path, "paper-clean", horizon=6, delay=1, change=chosen)
    kept(generator, tmp_path, "a-track-of-mine", models=GOOD | {"lightgbm": (0.8, 1.0)})
    ablations = [
        {"track": "six-hours", "change": "as it is", "nll": 1.9, "difference": None, "standard_error": None},
        {"track": "six-hours", "change": "no anchor", "nll": 2.0, "difference": 0.1, "standard_error": 0.01},
    ]
    ablations = [one | {"seeds": 3} for one in ablations]
    (tmp_path / "results" / "ablations.json").write_text(json.dumps(ablations))
    members = {"paper-clean": {"average": 0.512, "network": 0.51, "rls-t": 0.9}}
    (tmp_path / "results" / "safety_net.json").write_text(json.dumps(members))
    gained = {"plain": 1.0, "corrected": 0.9, "gain": 0.1, "standard_error": 0.01}
    corrected = {
        "latent-track": gained | {"behind": 0.0, "behind_error": 0.0},
        "gru": gained | {"behind": 0.03, "behind_error": 0.01},
        "lightgbm": gained | {"behind": -0.05, "behind_error": 0.02},
    }
    (tmp_path / "results" / "correction.json").write_text(json.dumps({"six-hours": corrected}))
    found = generator.load(tmp_path / "results")
    assert list(found.runs) == ["six-hours", "paper-clean", "a-track-of-mine"]
    page = generator.page(*found)
    for said in (
        "in NLL on 2 of 3 tracks, in CRPS on 2 of 3 tracks. ",
        "It is behind lightgbm on a-track-of-mine (NLL and CRPS).",
        "except on paper-clean",
        "for track in six-hours paper-clean a-track-of-mine; do",
        "Nowhere does it end more than 0.002 nats behind the best of its members.",
        "| paper-clean | 0.512 | 0.510 | 0.900 | +0.002 |",
        "better by more than two standard errors on 3 of 3 tracks",
        "- Anchor: RLS.",
        "ahead of a corrected gru on 1 of 1 tracks; "
        "ahead of a corrected lightgbm on 0 of 1 tracks and behind it on six-hours.",
        "| +0.030&nbsp;±&nbsp;0.010 | -0.050&nbsp;±&nbsp;0.020 |",
        "| paper-clean | 90.0 | 10.0 |",
        "| as it is (its NLL) | 1.900 | 3 |  |",
        "| no anchor | +0.100&nbsp;±&nbsp;0.010 | 3 | worse |",
        "- `latent-track` in NLL: ahead of every other model by more than two standard errors.",
        "> 0.318: **not reached**",
        "(images/calibration.png)",
    ):
        assert said in page
    assert generator.figure(found.runs).startswith(b"\x89PNG")
    _check_tables(page)


def _check_tables(page):
    """Every row of a table has as many cells as its head."""
    lines = page.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("|---"):
            end = next(j for j in range(i, len(lines) + 1) if j == len(lines) or not lines[j].startswith("|"))
            widths = {row.count("|") for row in lines[i - 1 : end]}
            assert len(widths) == 1, lines[i - 1]
            assert end - i > 1, f"no rows under {lines[i - 1]}"


def test_a_page_of_one_bench_without_anything_optional(generator, tmp_path):
    kept(generator, tmp_path, models={"latent-track": (1.0, 1.0), "rls": (1.2, 1.0)}, seeds=1)
    found = generator.load(tmp_path / "results")
    page = generator.page(*found)
    for absent in (
        "safety net",
        "One change at a time",
        "What the distribution",
        "over seeds:",
        "except on",
        "chose by",
        "Other files",
    ):
        assert absent not in page
    _check_tables(page)
    assert generator.figure(found.runs).startswith(b"\x89PNG")


def test_benches_of_files_have_a_table_of_their_own(generator, tmp_path):
    kept(generator, tmp_path)

    def of_a_file(summary):
        summary["track"] |= {"dataset": "file", "horizon": 6, "name": "plant", "target": "power"}

    kept(generator, tmp_path, track="plant", change=of_a_file)
    found = generator.load(tmp_path / "results")
    assert (list(found.runs), list(found.files)) == (["next-hour"], ["plant-6"])
    page = generator.page(*found)
    assert "\n| plant, power, 6 ahead |" in page
    assert "2 of 2 tracks" not in page
    _check_tables(page)


@pytest.mark.parametrize(
    ("difference", "error", "word", "text"),
    [
        (0.0353, 0.0041, "ahead", "+0.035&nbsp;±&nbsp;0.004"),
        (-0.0353, 0.0041, "behind", "-0.035&nbsp;±&nbsp;0.004"),
        (0.0081, 0.0041, "level", "+0.008&nbsp;±&nbsp;0.004"),
        (0.0021, 0.0008, "ahead", "+0.0021&nbsp;±&nbsp;0.0008"),
        (12.345, 0.5, "ahead", "+12.35&nbsp;±&nbsp;0.50"),
        (0.5, None, "unknown", "+0.500"),
        (None, None, "unknown", "infinite"),
    ],
)
def test_differences_in_words(generator, difference, error, word, text):
    assert generator.text.judged(pair(difference, error)) == word
    assert generator.text.plus_minus(pair(difference, error)) == text


def test_the_verdict_on_the_control_falls_either_way(generator):
    def run(difference, error):
        entry = {"seeds": [{"nll_mean": 1.0}], "paired": {"nll": pair(difference, error)}}
        return {"models": {"latent-track": entry, "lt-deterministic": entry}}

    runs = {"a": run(0.01, 0.001), "b": run(-0.001, 0.001), "c": run(-0.02, 0.001)}
    found = generator.text.control(runs)
    assert [row[-1] for row in found["rows"]] == [
        "ahead",
        "no difference beyond two standard errors",
        "behind",
    ]
    assert "on 1 of 3 tracks, not different beyond that on 1, and worse on 1" in found["verdict"]
    assert "-0.020 to +0.010 nats" in found["verdict"]
    assert generator.text.control({"a": {"models": {"latent-track": {}}}}) is None


def test_aims_are_compared_exactly(generator):
    """0.71204 is shown as 0.712 in the table, but does not reach 0.712."""
    row = {"nll_mean": 0.71204, "crps_mean": 0.306, "mse_mean": 0.39, "pit_ks": None, "coverage_90": 0.93}
    runs = {"next-hour": {"models": {"latent-track": {"seeds": [row], "parameters": {"total": 35_000}}}}}
    assert generator.text.aims_row("next-hour", runs["next-hour"]) == [
        "next-hour",
        "0.7120 > 0.712: **not reached**",
        "0.3060 ≤ 0.306: reached",
        "0.3900 ≤ 0.400: reached",
        "inf > 0.010: **not reached**",
        "93.0 not in 88 to 92: **not reached**",
        "35,000 ≤ 35,000: reached",
    ]
    assert generator.text.reached(runs) == (3, 6)


def test_a_seed_without_a_finite_score_makes_the_mean_infinite(generator):
    entry = {"seeds": [{"nll_mean": 1.0}, {"nll_mean": None}]}
    assert generator.text.shown(generator.text.mean(entry, "nll_mean")) == "∞"


def test_ablations_in_words(generator):
    def one(track, change, difference, error=0.004, seeds=3):
        return {
            "track": track, "change": change, "nll": 1.0, "difference": difference, "standard_error": error,
            "seeds": seeds,
        }  # fmt: skip

    table = generator.text.ablation_table(
        [
            one("mine", "unchanged", None, None),
            one("six-hours", "layer norm", 0.001),
            one("mine", "layer norm", -0.001, seeds=1),
            one("mine", "offsets", 0.0),
            one("six-hours", "offsets", -0.012),
            one("six-hours", "mixed", -0.012),
            one("mine", "mixed", 0.012),
            one("mine", "no anchor", 0.18),
        ]
    )
    assert table["tracks"] == ["six-hours", "mine"]
    assert table["unchanged"] == [["unchanged", "", "1.000", "3", ""]]
    told = {row[0]: (row[-2], row[-1]) for row in table["changes"]}
    assert told == {
        "layer norm": ("1 to 3", "no difference"),
        "offsets": ("3", "better on six-hours"),
        "mixed": ("3", "better on six-hours; worse on mine"),
        "no anchor": ("3", "worse"),
    }
    assert generator.text.ablation_table([]) is None


def test_a_safety_net_that_is_ahead_of_all_its_members(generator):
    members = {"bike": {"average": 1.0, "network": 1.3, "rls-t": 1.02}, "not on the page": {"average": 9.0}}
    table = generator.parts.members_table({"bike": {}}, members)
    assert table["rows"] == [["bike", "1.000", "1.300", "1.020", "-0.020"]]
    assert table["verdict"].endswith("everywhere, by 0.020 nats at least.")
    assert generator.parts.members_table({"other": {}}, members) is None


def test_an_ablation_must_be_complete(generator, tmp_path):
    (tmp_path / "ablations.json").write_text(json.dumps([{"track": "a", "change": "b", "nll": 1.0}]))
    with pytest.raises(LatentTrackError, match="has no difference, seeds, standard_error"):
        generator.load(tmp_path)
