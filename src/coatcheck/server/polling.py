"""A limit for clients that poll far faster than they were asked to. Off unless the operator wants it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from mcp.shared.exceptions import MCPError

from coatcheck.dialects.v2026 import milliseconds
from coatcheck.errors import InvalidArgument
from coatcheck.server.failures import TOO_MANY
from coatcheck.task import Task

_BURST = 10.0
_REMEMBERED = 10_000


class PollLimit:
    """Allows `factor` polls per poll interval of a task, and a burst now and then."""

    def __init__(self, factor: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not factor >= 1:
            raise InvalidArgument(f"poll_limit must be at least 1 poll per poll interval, but it is {factor}.")
        self._factor, self._clock = factor, clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, task: Task) -> None:
        """Count one poll of `task`.

        Raises:
            MCPError: It was one too many; the error says when to come again.
        """
        now, interval = self._clock(), task.poll_interval.total_seconds()
        left, since = self._tokens.pop(task.id, (_BURST, now))
        left = min(_BURST, left + (now - since) * self._factor / interval)
        is_allowed = left >= 1
        self._tokens[task.id] = (left - 1 if is_allowed else left, now)
        if len(self._tokens) > _REMEMBERED:
            self._tokens.popitem(last=False)
        if not is_allowed:
            wait = milliseconds(task.poll_interval)
            message = f"This task is polled too often; poll it every {wait} ms, or listen with subscriptions/listen"
            raise MCPError(TOO_MANY, message, {"retryAfterMs": wait})
