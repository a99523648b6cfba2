"""`latenttrack report`: figures, tables and the page, from made-up bench folders."""

import dataclasses
import html
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from made_up_bench import write_bench
from test_figures import png_size

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.archive import read_records, write_records
from latenttrack.report.loading import load_bench
from latenttrack.report.numbers import number, percent
from latenttrack.report.page import write_report

FIGURES = (
    "forecast_week",
    *(f"{what}_over_time_{whom}" for whom in ("all", "lt") for what in ("mean", "variance", "nll")),
    "around_anomaly", "rank_grid", "failures", "error_by_variance", "pit_histograms",
)  # fmt: skip


class Page(HTMLParser):
    """The tables of a page as lists of cells, and every address that it mentions."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.addresses, self.figures, self._cell = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.addresses += [
            value for name, value in attrs.items() if name in ("src", "href", "srcset", "action")
        ]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = ""
        if tag == "figure":
            self.figures.append(attrs["id"])

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(" ".join(self._cell.split()))
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data

    def lines(self, model):
        """The rows of a model and of those below that belong to it, over all tables."""
        found, inside = [], False
        for row in self.rows:
            names = row and (row[0] in ("25 seeds", "5 seeds", "3 seeds", "2 seeds", "paper"))
            inside = bool(row) and (row[0] == model or (inside and bool(names)))
            if inside:
                found.append(row)
        return found


def page_of(folder):
    return Page((folder / "report.html").read_text())


@pytest.mark.slow
def test_every_figure_is_a_sound_file_and_in_the_page(bench_folder):
    folder, _ = bench_folder
    assert page_of(folder).figures == list(FIGURES)
    files = {path.name for path in (folder / "figures").iterdir()}
    assert files == {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")}
    for name in FIGURES:
        assert png_size((folder / "figures" / f"{name}.png").read_bytes())[0] == 1350
        svg = (folder / "figures" / f"{name}.svg").read_text()
        assert svg.rstrip().endswith("</svg>")
        assert len(svg) < 1_000_000


@pytest.mark.slow
def test_the_page_needs_nothing_else(bench_folder):
    folder, _ = bench_folder
    text = (folder / "report.html").read_text()
    assert len(text) < 15_000_000
    addresses = page_of(folder).addresses
    assert sum(address.startswith("data:image/") for address in addresses) == len(FIGURES)
    assert all(address.startswith(("data:image/", "#")) for address in addresses)
    assert "<script" not in text
    assert "@import" not in text
    assert "url(" not in text


@pytest.mark.slow
def test_a_second_report_replaces_the_first(tmp_path):
    write_bench(tmp_path, models=("dssm",), references=(), seeds=1, steps=60)
    texts = [re.sub(r"data:image/[^\"]*", "", write_report(tmp_path).read_text()) for _ in range(2)]
    assert texts[0] == texts[1]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.slow
def test_tables_hold_seed_spread_and_paper(bench_folder):
    folder, summary = bench_folder
    seed, entry = summary["representative_seed"], summary["models"]["lt-structured"]
    lines = page_of(folder).lines("lt-structured")
    rows = entry["seeds"]
    names = ("nll_mean", "nll_trimmed", "nll_median", "nll_trimmed_median")
    ranks, over_seeds = entry["ranks"]["nll"], entry["ranks_over_seeds"]["nll"]
    assert lines[0] == [
        "lt-structured", f"seed {seed}", *(number(rows[seed][name]) for name in names),
        percent(ranks["first"]), percent(ranks["first_or_second"]),
    ]  # fmt: skip
    spreads = [np.array([row[name] for row in rows]) for name in names]
    assert lines[1] == [
        "5 seeds", *(f"{number(v.mean())} ± {number(v.std(ddof=1))}" for v in spreads),
        percent(over_seeds["first"]), percent(over_seeds["first_or_second"]),
    ]  # fmt: skip
    assert lines[2] == ["paper", "6.29", "2.44", "2.33", "2.32", "58.8", "79.6"]
    assert lines[5] == ["paper", "10,096", "6.32", "1.98", "1.93", "51.4", "75.2"]
    measures, _, paper = lines[6:9]
    assert measures[2:6] == [
        number(rows[seed]["crps_mean"], 3), percent(rows[seed]["coverage_90"]),
        number(rows[seed]["pit_ks"], 3), percent(rows[seed]["epistemic_share"]),
    ]  # fmt: skip
    assert measures[7:] == ["20,709", "20,709", "45 s", "12 s"]
    assert paper == ["paper", "", "", "", "", "12", "20,709", "20,709", "", ""]
    assert lines[9][2:] == [number(rows[seed]["nll_max"]), "2014-08-18 05:40", "5 of 5"]


@pytest.mark.slow
def test_the_best_model_is_marked_and_references_do_not_compete(bench_folder):
    folder, summary = bench_folder
    seed = summary["representative_seed"]
    models = {name: e["seeds"][seed] for name, e in summary["models"].items() if not e["reference"]}
    best = min(models, key=lambda name: models[name]["nll_trimmed"])
    text = (folder / "report.html").read_text()
    row = text[text.index(f"{best}</th>") :][:600]
    assert f"<b>{number(models[best]['nll_trimmed'])}</b>" in row
    reference = text[text.index("last-label</th>") :][:400]
    assert "<b>" not in reference
    assert "References ahead of every model: last-label (trimmed NLL" in html.unescape(text)


@pytest.mark.slow
def test_claims_and_facts_are_in_the_page(bench_folder):
    folder, _ = bench_folder
    text = html.unescape((folder / "report.html").read_text())
    numbers = [row[0] for row in page_of(folder).rows if len(row) == 3 and re.fullmatch(r"\d[a-c]?", row[0])]
    assert numbers == ["1a", "1b", "2", "3a", "3b", "3c", "4a", "4b", "4c"]
    assert "Epistemic share of the largest variance there: lt-structured" in text
    for fact in ("latenttrack bench paper", "0.10.2", "49,027", "learning rate 0.0001", "25 min on 2 cores"):
        assert fact in text


@pytest.mark.slow
def test_a_bench_of_other_models_says_nothing_of_the_papers_claims(tmp_path):
    write_bench(tmp_path, models=(), steps=300)
    write_report(tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "#claims" not in text
    assert "paper’s claims" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "missing"),
    [
        ({"models": ("dssm", "mc-dropout"), "seeds": 2}, {"_lt"}),
        ({"models": ("vrnn",), "references": (), "seeds": 1}, {"_lt", "rank_grid"}),
        ({"models": ()}, {"_lt", "rank_grid"}),
        ({"anomaly": False, "track": "next-hour", "seeds": 1}, {"around_anomaly"}),
        ({"models": ("lt-structured",), "steps": 5, "seeds": 1}, {"_lt", "rank_grid"}),
    ],
    ids=["no-lt", "one-model", "references", "no-anomaly", "five-steps"],
)
def test_any_subset(choice, missing, tmp_path):
    write_bench(tmp_path, **{"steps": 300, **choice})
    write_report(tmp_path)
    expected = [name for name in FIGURES if not any(name.endswith(part) for part in missing)]
    assert page_of(tmp_path).figures == expected
    has_paper = any(row[:1] == ["paper"] for row in page_of(tmp_path).rows)
    assert has_paper == (bool(choice.get("models", True)) and choice.get("track", "paper") == "paper")


@pytest.mark.slow
def test_a_model_that_broke_down_is_shown_as_infinite(tmp_path):
    summary = write_bench(tmp_path, models=("lt-structured", "vrnn"), seeds=2, steps=300)
    records = read_records(tmp_path / "vrnn.parquet")
    steps = {name: np.full_like(values, np.nan) for name, values in records.steps.items()}
    write_records(tmp_path / "vrnn.parquet", dataclasses.replace(records, steps=steps))
    for row in summary["models"]["vrnn"]["seeds"]:
        row.update(dict.fromkeys(row))
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    write_report(tmp_path)
    first, over_seeds, _ = page_of(tmp_path).lines("vrnn")[:3]
    assert first[2:6] == ["∞"] * 4
    assert over_seeds[1:5] == ["∞"] * 4
    assert "Not drawn, because not finite: vrnn at 300 steps." in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_names_and_times_from_files_are_no_markup(tmp_path):
    summary = write_bench(tmp_path, models=("vrnn",), references=(), seeds=1, steps=100)
    summary["track"]["summary"] = "<script>alert(1)</script>"
    summary["versions"]["<img src=x>"] = "1"
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    text = write_report(tmp_path).read_text()
    assert "<script" not in text
    assert "<img src=x" not in text


def latenttrack(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "latenttrack", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_command_prints_where_the_page_is(tmp_path):
    write_bench(tmp_path, models=("dssm",), references=(), seeds=1, steps=60)
    done = latenttrack("report", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'report.html'}\n"
    assert (tmp_path / "report.html").exists()


def test_a_wrong_folder_is_one_sentence_and_code_2(tmp_path):
    done = latenttrack("report", tmp_path / "nowhere")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "there is no folder" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def broken(change):
    """A summary.json with a change."""

    def write(folder, summary):
        change(summary)
        (folder / "summary.json").write_text(json.dumps(summary))

    return write


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder, _: (folder / "summary.json").unlink(), "has no summary.json"),
        (lambda folder, _: (folder / "summary.json").write_text('{"version": 1'), "cannot be read"),
        (lambda folder, _: (folder / "summary.json").write_bytes(b"\xff\xfe"), "cannot be read"),
        (lambda folder, _: (folder / "summary.json").write_text("[]"), "no JSON object"),
        (broken(lambda s: s.update(version=2)), "has version 2, and this latenttrack reads version 1"),
        (broken(lambda s: s.pop("version")), "'version' is missing"),
        (broken(lambda s: s.update(models={})), "no models"),
        (broken(lambda s: s["models"]["dssm"].pop("reference")), "does not say whether it is a reference"),
        (broken(lambda s: s["models"]["dssm"].update(seeds=[])), "'dssm' has no seeds"),
        (broken(lambda s: s["models"]["dssm"]["seeds"][0].update(nll_max="x")), "'dssm' has no nll_max"),
        (broken(lambda s: s["models"]["dssm"].update(ranks={})), "'dssm' has no ranks"),
        (broken(lambda s: s["models"]["dssm"].update(failure_rate=None)), "no failure_rate"),
        (broken(lambda s: s["models"].update({"../x": s["models"]["dssm"]})), "is no name of a model"),
        (broken(lambda s: s["models"].update(vrnn=s["models"]["dssm"])), "there is no file"),
        (lambda folder, _: (folder / "dssm.parquet").write_bytes(b"PAR1"), "dssm.parquet cannot be read"),
    ],
)
def test_damaged_folders_are_refused(damage, message, tmp_path):
    summary = write_bench(tmp_path, models=("dssm",), references=(), seeds=1, steps=30)
    damage(tmp_path, summary)
    with pytest.raises(LatentTrackError, match=re.escape(message)):
        load_bench(tmp_path)


def test_models_of_different_steps_are_refused(tmp_path):
    write_bench(tmp_path, models=("dssm", "vrnn"), references=(), seeds=1, steps=30)
    other = tmp_path / "other"
    write_bench(other, models=("vrnn",), references=(), seeds=1, steps=40)
    (other / "vrnn.parquet").replace(tmp_path / "vrnn.parquet")
    with pytest.raises(LatentTrackError, match="different steps"):
        load_bench(tmp_path)


def test_the_papers_models_come_first_in_its_order(tmp_path):
    write_bench(tmp_path, models=("bbb", "dssm", "lt-structured"), seeds=2, steps=30)
    bench = load_bench(tmp_path)
    assert [entry.model for entry in bench.models] == ["lt-structured", "dssm", "bbb"]
    assert [entry.model for entry in bench.references] == ["last-label", "climatology"]
    assert all(entry.seeds == 1 for entry in bench.models)
