import io
import math

import pytest
from rich.console import Console

from latenttrack.evaluation.records import Summary
from latenttrack.report import markdown_table, score_table
from latenttrack.report.tables import COLUMNS

NAN = float("nan")


def summary(model, nll=1.0, crps=1.0, mse=1.0, coverage=0.8, share=0.1, parameters=10, microseconds=10.0):
    return Summary(model, nll, crps, mse, coverage, share, parameters, microseconds)


def printed(table, width=80, colour=False):
    """The lines as they arrive in a pipe (or in a colour terminal)."""
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=colour, color_system="standard" if colour else None).print(
        table
    )
    return [line.rstrip() for line in file.getvalue().splitlines()]


def cells(summaries, title, **options):
    """The cells of one column by model, as shown in a pipe."""
    place = 1 + [column.title for column in COLUMNS].index(title)
    rows = [line.split() for line in printed(score_table(summaries, **options))[1:-1]]
    return {row[0]: row[place] for row in rows if len(row) == 1 + len(COLUMNS)}


def marked(summaries, title, **options):
    return {name for name, cell in cells(summaries, title, **options).items() if cell.startswith("*")}


@pytest.mark.parametrize(("title", "field"), [("NLL", "nll"), ("CRPS", "crps"), ("MSE", "mse")])
def test_smallest_score_is_marked(title, field):
    rows = [summary("a", **{field: 2.0}), summary("b", **{field: 0.5}), summary("c", **{field: 1.0})]
    assert marked(rows, title) == {"b"}


def test_negative_nll_is_better_than_small():
    assert marked([summary("a", nll=0.001), summary("b", nll=-3.0)], "NLL") == {"b"}


def test_best_coverage_is_closest_to_nominal():
    rows = [summary("a", coverage=0.99), summary("b", coverage=0.88), summary("c", coverage=0.5)]
    assert marked(rows, "90% cov") == {"b"}
    # 0.89 and 0.91 are equally far, although not in binary
    assert marked([summary("a", coverage=0.89), summary("b", coverage=0.91)], "90% cov") == {"a", "b"}


def test_what_looks_the_same_is_marked_the_same():
    rows = [summary("a", crps=0.1231), summary("b", crps=0.1234), summary("c", crps=0.124)]
    assert marked(rows, "CRPS") == {"a", "b"}


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_what_is_not_finite_is_shown_but_never_best(bad):
    rows = [summary("broken", nll=bad, mse=bad), summary("fine", nll=5.0, mse=5.0)]
    assert marked(rows, "NLL") == marked(rows, "MSE") == {"fine"}
    assert cells(rows, "NLL")["broken"] == str(bad)
    assert marked([summary("a", nll=bad), summary("b", nll=bad)], "NLL") == set()


def test_shares_and_parameters_are_not_marked():
    rows = [summary("a", share=0.0, parameters=1), summary("b", share=0.5, parameters=1000)]
    assert marked(rows, "epist.") == marked(rows, "params") == set()


def test_speed_is_compared_among_models_only():
    rows = [
        summary("a", microseconds=30.0),
        summary("b", microseconds=20.0),
        summary("naive", microseconds=1.0),
    ]
    assert marked(rows, "µs/step", references=["naive"]) == {"b"}
    assert marked(rows, "µs/step") == {"naive"}
    assert marked(rows, "µs/step", references=["a", "b", "naive"]) == {"naive"}
    # the one model has no rival
    assert marked(rows[1:], "µs/step", references=["naive"]) == set()


def test_speed_that_was_not_measured():
    rows = [summary("a", microseconds=NAN), summary("b", microseconds=20.0)]
    assert cells(rows, "µs/step") == {"a": "-", "b": "*20.0"}


def test_scores_are_compared_with_references_too():
    assert marked([summary("a", nll=2.0), summary("naive", nll=1.0)], "NLL", references=["naive"]) == {
        "naive"
    }


def test_a_single_row_has_no_best():
    table = score_table([summary("a")])
    assert not any("*" in line for line in printed(table)[:-1])


@pytest.mark.parametrize(
    ("title", "field", "value", "shown"),
    [
        ("NLL", "nll", 1.23456, "1.235"),
        ("NLL", "nll", -0.0001, "0.000"),
        ("NLL", "nll", -123456.0, "-1.23e5"),
        ("MSE", "mse", 9876.5432, "9876.543"),
        ("MSE", "mse", 3.2e12, "3.20e12"),
        ("MSE", "mse", 0.00123, "1.23e-3"),
        ("MSE", "mse", 0.0, "0.000"),
        ("params", "parameters", 1234567, "1,234,567"),
        ("params", "parameters", 123456789, "1.23e8"),
        ("µs/step", "microseconds", 84.26, "84.3"),
        ("µs/step", "microseconds", 12345.6, "1.23e4"),
    ],
)
def test_numbers(title, field, value, shown):
    assert cells([summary("a", **{field: value})], title) == {"a": shown}


def test_models_stand_above_the_rule_and_truth_at_the_end():
    rows = [summary("naive"), summary("b"), summary("a"), summary("climatology")]
    lines = printed(score_table(rows, 0.25, ["naive", "climatology"]))
    first = [line.split()[0] if "─" not in line else "rule" for line in lines[1:-1]]
    assert first == ["rule", "b", "a", "rule", "naive", "climatology", "rule", "truth"]
    assert lines[-2].split() == ["truth", "0.250"]
    assert printed(score_table(rows[1:3]))[-2].split()[0] == "a"  # no rule before nothing


def test_truth_is_never_best():
    rows = [summary("a", nll=2.0), summary("b", nll=3.0)]
    assert marked(rows, "NLL", truth_nll=-10.0) == {"a"}


def test_only_references():
    rows = [summary("naive", nll=2.0), summary("climatology", nll=3.0)]
    lines = printed(score_table(rows, references=("naive", "climatology")))
    assert [line.split()[0] for line in lines[2:-1]] == ["naive", "climatology"]
    assert marked(rows, "NLL", references=("naive", "climatology")) == {"naive"}


def test_rows_do_not_wrap_in_80_columns():
    def worst(name):
        return summary(name, -9999.999, 9999.999, 9999.999, 0.9, 0.1, 9_999_999, 9999.9)

    lines = printed(
        score_table([worst("lt-unstructured"), worst("lt-unstructured-with-more-words")], -9999.999)
    )
    assert max(map(len, lines)) <= 80
    assert len(lines) == 7  # head, rule, two rows, rule, truth, caption
    assert lines[2].startswith("lt-unst")
    assert " ".join(lines[2].split()[1:]) == "*-9999.999 *9999.999 *9999.999 *0.900 0.100 9,999,999 *9999.9"


def test_the_usual_names_are_whole_in_80_columns():
    rows = [
        summary("lt-unstructured", nll=-12.345, mse=123.456, parameters=123_456),
        summary("seasonal-naive"),
    ]
    lines = printed(score_table(rows))
    assert [line.split()[0] for line in lines[2:4]] == ["lt-unstructured", "seasonal-naive"]


def test_decimals_are_aligned():
    lines = printed(score_table([summary("a", nll=1.0), summary("b", nll=-22.5), summary("c", nll=3.25)]))
    assert len({line.index(".") for line in lines[2:5]}) == 1


def test_best_is_bold_in_a_colour_terminal():
    lines = printed(score_table([summary("a", nll=1.0), summary("b", nll=2.0)]), colour=True)
    assert any("\x1b[1m*1.000\x1b[0m" in line for line in lines)


def test_names_are_no_markup():
    lines = printed(score_table([summary("[bold]x[/bold]"), summary("b")]))
    assert lines[2].startswith("[bold]x[/bold]")


def test_markdown_has_the_same_content():
    rows = [summary("naive", nll=0.5, microseconds=1.0), summary("b", nll=2.0), summary("c", nll=1.0)]
    lines = markdown_table(rows, 0.25, ["naive"]).splitlines()
    grid = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert grid[0] == ["model", *(column.title for column in COLUMNS)]
    assert grid[1] == ["---"] + ["---:"] * len(COLUMNS)
    assert [row[0] for row in grid[2:]] == ["b", "c", "*naive*", "*truth*"]
    assert [row[1] for row in grid[2:]] == ["2.000", "1.000", "**0.500**", "0.250"]
    assert [row[-1] for row in grid[2:]] == ["**10.0**", "**10.0**", "1.0", ""]


def test_markdown_names_cannot_break_the_table():
    row = markdown_table([summary("a|b_c")]).splitlines()[2]
    assert row.startswith(r"| a\|b\_c | 1.000 |")


def test_no_summaries():
    assert len(printed(score_table([]))) > 0
    assert len(markdown_table([]).splitlines()) == 2
