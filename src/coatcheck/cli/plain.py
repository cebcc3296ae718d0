"""Text of servers, made harmless for a terminal."""

from __future__ import annotations

import re

# Control characters (a terminal obeys them) and those that turn the direction of text around (a reader is misled).
_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return the text with whatever would move a cursor, colour a screen or ring a bell made visible."""
    return _HARMFUL.sub(lambda found: "" if found[0] == "\r" else "\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Return the text in one line."""
    return " ".join(plain(text).split())
