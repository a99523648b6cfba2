"""From a series to windows: due labels, unknown labels, and cutting into pieces."""

import jax
import numpy as np
import pytest

from latenttrack.models.layout import cut, hide_unknown, lay_out, pad_front


@pytest.mark.parametrize("delay", [1, 3, 50])
def test_due_labels_are_those_of_delay_steps_before(make_series, delay):
    series = make_series((9, 6), delay=delay)
    series.y[4] = np.nan
    series.x[2, 1] = np.nan
    window, _ = lay_out(series)
    assert window.x.shape == (2, 9, 3)
    for stream, start, length in ((0, 0, 9), (1, 9, 6)):
        for t in range(9):
            row = start + t
            seen = t < length and not np.isnan(series.y[row])
            assert window.observed[stream, t] == seen
            assert window.y[stream, t] == (np.float32(series.y[row]) if seen else 0.0)
            due = t - delay
            known = 0 <= due < length and not np.isnan(series.y[start + due])
            assert window.due_observed[stream, t] == known
            assert window.due_y[stream, t] == (np.float32(series.y[start + due]) if known else 0.0)
            if 0 <= due < length:
                np.testing.assert_array_equal(
                    window.due_x[stream, t], np.nan_to_num(series.x[start + due]).astype(np.float32)
                )
    assert all(np.isfinite(leaf).all() for leaf in window)


def test_labels_not_known_at_the_end_are_hidden(make_series):
    """With delay 3 the labels of the last two steps of each stream come after its end."""
    series = make_series((9, 6), delay=3)
    window, sequences = lay_out(series)
    hidden = hide_unknown(window, sequences, 3)
    assert hidden.observed.sum(axis=1).tolist() == [7, 4]
    assert not hidden.observed[0, 7:].any()
    assert not hidden.observed[1, 4:].any()
    np.testing.assert_array_equal(hidden.due_observed, window.due_observed)
    series = make_series((9, 6))
    window, sequences = lay_out(series)
    np.testing.assert_array_equal(hide_unknown(window, sequences, 1).observed, window.observed)


@pytest.mark.parametrize(("pieces", "multiple"), [(1, 1), (2, 1), (3, 4), (4, 5), (1, 16)])
def test_cutting_loses_no_row(make_series, pieces, multiple):
    window, _ = lay_out(make_series((11, 7)))
    pieced = cut(window, pieces, multiple)
    assert pieced.y.shape[1] % multiple == 0
    for name in ("y", "due_y"):
        seen = "observed" if name == "y" else "due_observed"
        before, after = (
            getattr(window, name)[getattr(window, seen)],
            getattr(pieced, name)[getattr(pieced, seen)],
        )
        np.testing.assert_array_equal(after, before)  # same values in the same order
    assert (pieced.observed.any(axis=1) | pieced.due_observed.any(axis=1)).all()


def test_padding_in_front_is_unobserved(make_series):
    window, _ = lay_out(make_series((5,)))
    padded = pad_front(jax.tree.map(jax.numpy.asarray, window), 3)
    assert padded.y.shape == (1, 8)
    assert not padded.observed[0, :3].any()
    assert not padded.due_observed[0, :3].any()
    np.testing.assert_array_equal(padded.x[0, 3:], window.x[0])
