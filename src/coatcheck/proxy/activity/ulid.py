"""ULIDs: ids that sort by time, for events, requests and timers; never for tasks, as they can be guessed."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from coatcheck.engine import utc_now

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {letter: value for value, letter in enumerate(_LETTERS)}
_LENGTH = 26
_RANDOM_BITS = 80
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Ulids:
    """Makes ids that are strictly increasing, whatever the clock does; all above `after`, if that is one."""

    def __init__(self, clock: Callable[[], datetime] = utc_now, *, after: str | None = None) -> None:
        self._clock = clock
        self._last = -1 if after is None else _number(after)

    def new(self) -> str:
        milliseconds = (self._clock() - _EPOCH) // _MILLISECOND
        if milliseconds > self._last >> _RANDOM_BITS:
            # The first random bit is left out, so that there is room to count up within the millisecond.
            self._last = milliseconds << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8)) >> 1
        else:
            self._last += 1
        return _text(self._last)


def _text(number: int) -> str:
    return "".join(_LETTERS[number >> shift & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))


def _number(ulid: str) -> int:
    """Return the number behind an id; -1, which is before all, if it is none of ours."""
    if len(ulid) != _LENGTH or not _VALUES.keys() >= set(ulid):
        return -1
    number = 0
    for letter in ulid:
        number = number << 5 | _VALUES[letter]
    return number
