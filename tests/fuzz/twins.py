"""The same message about another task: whoever may see neither must not be able to tell them apart."""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from dataclasses import replace

from tests.fuzz.messages import Message, mentions

ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
"""In which the SDK reads a body."""


def a_twin(message: Message, known: str, unknown: str) -> Message:
    """Return the same message about a task that never was."""
    old, new = known.encode(), unknown.encode()

    def renamed(value: bytes) -> bytes:
        if found := re.fullmatch(rb"(=\?base64\?)([A-Za-z0-9+/]+=*)(\?=)", value):
            with suppress(ValueError):
                return found[1] + base64.b64encode(base64.b64decode(found[2]).replace(old, new)) + found[3]
        return value.replace(old, new)

    body = message.body
    for encoding in ENCODINGS:
        body = mentions(known, encoding).sub(unknown.encode(encoding), body)
    headers = tuple((name, renamed(value)) for name, value in message.headers)
    return replace(message, headers=headers, chunks=(body,))
