"""How often to look at a task: as often as the server likes, and less the longer nothing happens."""

from __future__ import annotations

import random
from datetime import timedelta

_UNSAID = 1.0
_FIRST = 0.25
_SHORTEST, _LONGEST = 0.02, 3600.0
_GROWTH = 1.5
_CEILING = 5.0
_WHEN_TOLD = 30.0
_JITTER = 0.1


def pause(interval: timedelta | None, unchanged: int, *, is_told: bool, may_be_told: bool = False) -> float:
    """Return how long to wait before the next look, in seconds: never less than the server's interval after a look.

    `unchanged`: how many looks in a row have shown nothing new; -1: there was none yet, so the first may come early,
    as many tasks are done in no time. `is_told`: whether the server tells of changes by itself; then a look is only
    to be sure. `may_be_told`: whether it is about to.
    """
    least = _UNSAID if interval is None else min(max(interval.total_seconds(), _SHORTEST), _LONGEST)
    if is_told:
        wanted = max(least, _WHEN_TOLD)
    elif unchanged < 0:
        wanted = least if may_be_told else min(least, _FIRST)
    else:
        wanted = min(least * _GROWTH ** min(unchanged, 20), max(least, _CEILING))
    return wanted * random.uniform(1.0, 1.0 + _JITTER)
