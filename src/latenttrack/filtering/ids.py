"""What users may call an event."""

import operator
from typing import Any

from latenttrack.data.matching import shown
from latenttrack.errors import LatentTrackError

LONGEST_ID = 256


def as_id(id: Any) -> str | int | None:
    """An id as it is kept: text, or a whole number of any type, such as numpy's; None for none."""
    # Ids are kept in snapshots, as many as there are steps: they must be short.
    if id is None or (type(id) is str and len(id) <= LONGEST_ID):  # nearly always
        return id
    if isinstance(id, str) and len(id) <= LONGEST_ID:
        return str(id)
    if not isinstance(id, bool) and hasattr(id, "__index__"):
        try:
            number = operator.index(id)
        except TypeError:  # an array
            number = 2**63
        if abs(number) < 2**63:
            return number
    raise LatentTrackError(
        f"the id {shown(id)} is neither text of up to {LONGEST_ID} letters nor a whole number: give one."
    )
