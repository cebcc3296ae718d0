"""When to try again to reach a server."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float
    most: float
    tries: int | None = None
    """None: no limit."""
    jitter: float = 0.1

    def delay(self, attempt: int) -> float | None:
        """Return how many seconds to wait before an attempt, counted from 1; None: it was tried often enough."""
        if self.tries is not None and attempt > self.tries:
            return None
        wanted = min(self.first * 2.0 ** min(attempt - 1, 60), self.most)
        return wanted * random.uniform(1.0 - self.jitter, 1.0 + self.jitter)


FOR_HTTP = Backoff(first=1.0, most=180.0)
FOR_PROCESSES = Backoff(first=1.0, most=60.0, tries=5)
