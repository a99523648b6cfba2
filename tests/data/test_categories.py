"""Columns of text as inputs, in a table and in an event."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from latenttrack.data.categories import find_kinds, spread
from latenttrack.data.columns import from_text
from latenttrack.data.feed import Feed
from latenttrack.data.tables import Table

WIND = (("wind", ("NW", "SE", "cv")),)
FEED = Feed(("temp", "wind=NW", "wind=SE", "wind=cv"), "y", categories=WIND)


def texts(*counts):
    """So many of each kind, shuffled."""
    column = np.repeat(np.array(list("abcdefghijklmnop")[: len(counts)], object), counts)
    return np.random.default_rng(0).permutation(column)


@pytest.mark.parametrize(
    ("column", "kinds"),
    [
        (texts(30, 60, 10), ("b", "a", "c")),
        (texts(500, 490, 9), ("a", "b")),  # too rare
        (texts(100), ()),  # always the same
        (texts(*[10] * 16), ()),  # free text
        (texts(*range(200, 100, -10), 1, 1), ()),  # the eight most common are too few
        (np.append(texts(5, 5), [""] * 90).astype(object), ("a", "b")),
        (np.array(["", ""], object), ()),
    ],
)
def test_common_kinds_are_found(column, kinds):
    assert find_kinds(column) == kinds


def test_a_table_and_its_rows_as_events_say_the_same():
    table = Table({"temp": np.arange(5.0), "wind": np.array(["SE", "cv", "", "N", "NW"], object)})
    wide = spread(table, WIND)
    assert tuple(wide.columns) == FEED.inputs
    for i, (temp, wind) in enumerate(zip(table.columns["temp"], table.columns["wind"], strict=True)):
        row, _, flags = FEED.row({"temp": temp, "wind": wind})
        np.testing.assert_array_equal(row, [wide.columns[name][i] for name in FEED.inputs])
        assert flags == {2: ["missing:wind"], 3: ["unknown-kind:wind"]}.get(i, [])


def test_events_without_or_with_odd_kinds():
    assert FEED.columns == ("temp", "wind")
    for x in ({"temp": 1.0}, {"temp": 1.0, "wind": None}, {"temp": 1.0, "wind": math.nan}):
        row, _, flags = FEED.row(x)
        assert np.isnan(row[1:]).all()
        assert flags == ["missing:wind"]
    for odd in (3, ["NW"], {"a": 1}, True, "x" * 1000, np.arange(2)):
        row, _, flags = FEED.row({"temp": 1.0, "wind": odd})
        np.testing.assert_array_equal(row, [1.0, 0.0, 0.0, 0.0])
        assert flags == ["unknown-kind:wind"]
    # Who has 0 and 1 already gives them.
    row, _, flags = FEED.row(dict(zip(FEED.inputs, [1.0, 0.0, 1.0, 0.0], strict=True)))
    assert (row.tolist(), flags) == ([1.0, 0.0, 1.0, 0.0], [])
    assert FEED.row({"temp": 1.0, "wind": "NW", "more": 2})[2] == ["unknown:more"]


@pytest.mark.parametrize("sentinel", [0.0, 1.0])
def test_a_sentinel_of_0_or_1_is_no_kind(sentinel):
    """It means a number of the file, and kinds are no numbers there."""
    feed = replace(FEED, sentinels=((sentinel, None),))
    for x in ({"temp": 5.0, "wind": "NW"}, np.array([5.0, 1.0, 0.0, 0.0])):
        row, _, flags = feed.row(x)
        assert (row.tolist(), flags) == ([5.0, 1.0, 0.0, 0.0], [])
    assert feed.row({"temp": sentinel, "wind": "NW"})[2] == ["missing:temp"]


def test_through_json():
    assert Feed.from_dict(json.loads(json.dumps(FEED.to_dict()))) == FEED
    # Files from before there were kinds.
    old = FEED.to_dict()
    del old["categories"]
    assert Feed.from_dict(old).categories == ()


@pytest.mark.parametrize(
    ("written", "other"),
    [("1", "2"), ("01", "02"), ("1.5", "2.5"), ("1,5", "2,5"), ("True", "False"), ("1e3", "2000")],
)
def test_kinds_that_look_like_numbers(written, other):
    """A file that happens to hold no other kinds is read as numbers; in JSON they may be numbers as well."""
    categories = (("zone", (other, written, "A")),)
    feed = Feed(tuple(f"zone={kind}" for kind in categories[0][1]), "y", categories=categories)
    numbers = from_text([written, other, "", "7"], decimal_comma=True)
    assert numbers.dtype.kind == "f"
    wide = spread(Table({"zone": numbers}), categories)
    for i, text in enumerate([written, other, "", "7"]):
        expected, _, flags = feed.row({"zone": text})
        assert flags == {2: ["missing:zone"], 3: ["unknown-kind:zone"]}.get(i, [])
        np.testing.assert_array_equal([wide.columns[name][i] for name in feed.inputs], expected)
        row, _, said = feed.row({"zone": numbers[i]})
        np.testing.assert_array_equal(row, expected)
        assert said == flags
    assert feed.row({"zone": 10**400})[2] == ["unknown-kind:zone"]


def test_numbers_are_not_the_kind_of_a_question_mark():
    wide = spread(Table({"zone": np.array([3.0])}), (("zone", ("?", "A")),))
    assert [column.tolist() for column in wide.columns.values()] == [[0.0], [0.0]]


def test_a_column_without_any_text():
    wide = spread(Table({"wind": np.array([np.nan, np.nan])}), WIND)
    assert all(np.isnan(column).all() for column in wide.columns.values())
