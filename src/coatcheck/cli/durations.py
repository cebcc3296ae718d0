"""Durations as people write them: `90`, `30s`, `15m`, `2h`, `1d`, `1h30m`."""

from __future__ import annotations

import re

from coatcheck.errors import InvalidArgument

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def seconds(text: str | None) -> float | None:
    """Return the seconds of a duration; None of None.

    Raises:
        InvalidArgument: That is no duration.
    """
    if text is None:
        return None
    word = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", word):
        return float(word)
    if not re.fullmatch(rf"({_PART.pattern})+", word):
        raise InvalidArgument(f"{text!r} is no duration; write seconds, or 30s, 15m, 2h, 1h30m.")
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(word))


def ago(passed: float) -> str:
    """Say a number of seconds in one unit: `5 s`, `12 min`, `3 h`, `2 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if passed >= length:
            return f"{int(passed // length)} {unit}"
    return f"{max(0, int(passed))} s"
