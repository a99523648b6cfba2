"""One stream is timed, whatever the series holds."""

from latenttrack.evaluation import timing
from latenttrack.models.registry import build_reference
from latenttrack.models.task import Task


def test_a_single_stream_is_timed(make_series, as_stack, monkeypatch):
    """Three streams side by side would be divided by the steps of one."""
    timed = []
    monkeypatch.setattr(timing, "filter_series", lambda stack, series, key, record: timed.append(series))
    series = make_series((30, 40, 20))
    stack = as_stack(build_reference("last-label", Task.of(series)))
    assert timing.microseconds_per_step(stack, series, steps=25, repeats=1) >= 0
    assert len(timed) == 2  # once to compile, once to measure
    for stream in timed:
        assert stream.keys == ("k0",)
        assert stream.sequences().x.shape[:2] == (1, 25)
        assert (stream.y == series.y[:25]).all()
