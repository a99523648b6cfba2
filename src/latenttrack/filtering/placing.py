"""Which step of the grid an event belongs to."""

from latenttrack.data.feed import Feed
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.log import Entry


def place(
    feed: Feed, interval: int | None, time: object, newest: Entry | None, flags: list[str]
) -> tuple[int | float, int]:
    """Time and number of the step that an event is about.

    Args:
        feed: how times are read.
        interval: between two steps, in the units of times; None: any, and every event is the next step.
        time: of the event; None: one step after the newest.
        newest: the last step so far, None before the first.
        flags: of the event; if it is off the grid, that is added.
    """
    if time is None:
        if feed.clock and (newest is None or interval is None):
            raise LatentTrackError(
                "the event has no time: give it one; only later ones of a regular stream may go without."
            )
        number = 0 if newest is None else newest.number + 1
        return 0 if newest is None else newest.time + (interval or 1), number
    when = feed.time(time)
    if newest is None:
        return when, 0
    if interval is None or when == newest.time + interval:
        return when, newest.number + 1
    steps = round((when - newest.time) / interval)
    on_grid = newest.time + steps * interval
    if on_grid != when:
        flags.append("off-grid")
    return on_grid, newest.number + steps
