"""Task ids: 192 random bits, behind a short random prefix that a run of ids has in common.

The prefix lets a store keep tasks that are made together on the same few pages, so that a batch of new tasks
dirties those instead of as many as there are tasks. It holds no time and no order, and adds no secrecy.
"""

from __future__ import annotations

import base64
import os

_RUN = 64
_BYTES = 24
_LETTERS = 32


class Ids:
    def __init__(self) -> None:
        self._prefix = self._secrets = ""
        self._next = 0

    def new(self) -> str:
        if self._next == len(self._secrets):
            # One that begins with a dash would be taken for an option on a command line.
            self._prefix, self._secrets, self._next = _random(3).replace("-", "_"), _random(_RUN * _BYTES), 0
        start = self._next
        self._next = end = start + _LETTERS
        return self._prefix + self._secrets[start:end]


def _random(size: int) -> str:
    return base64.urlsafe_b64encode(os.urandom(size)).decode()
