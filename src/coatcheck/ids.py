"""Task ids: 192 random bits, behind a short random prefix that a run of ids has in common.

The prefix keeps ids that are made together on one page of a store's index, so that a batch of new tasks
dirties one page instead of as many as there are tasks. It holds no time and no order, and adds no secrecy.
"""

from __future__ import annotations

import base64
import os

_RUN = 256
_BYTES = 24


class Ids:
    def __init__(self) -> None:
        self._prefix = b""
        self._pool = b""

    def new(self) -> str:
        if not self._pool:
            self._prefix, self._pool = os.urandom(3), os.urandom(_RUN * _BYTES)
        secret, self._pool = self._pool[:_BYTES], self._pool[_BYTES:]
        return base64.urlsafe_b64encode(self._prefix + secret).decode()
