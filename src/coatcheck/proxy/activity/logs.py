"""What servers logged and what they notified: rings of the last thousand, read on request and never told unasked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from coatcheck.engine import utc_now
from coatcheck.errors import InvalidArgument
from coatcheck.proxy.activity.events import timestamp

MOST_KEPT = 1000
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""MCP's levels, the least severe first."""

_SEVERITIES = {level: severity for severity, level in enumerate(LEVELS)}
_UNKNOWN_LEVEL = _SEVERITIES["info"]


class LogMessage(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    level: str
    logger: str | None
    data: Any
    source: str
    """How it came: `protocol`, or `stderr` of a server that is a process."""
    at: datetime

    @property
    def severity(self) -> int:
        return _SEVERITIES.get(self.level, _UNKNOWN_LEVEL)

    def to_json(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "level": self.level,
            "logger": self.logger,
            "source": self.source,
            "timestamp": timestamp(self.at),
            "data": self.data,
        }


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    method: str
    params: dict[str, Any]
    at: datetime

    def to_json(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "method": self.method,
            "timestamp": timestamp(self.at),
            "params": self.params,
        }


class Logs:
    """The last log messages of all servers of one session."""

    def __init__(self, *, clock: Callable[[], datetime] = utc_now, bound: int = MOST_KEPT) -> None:
        self._clock = clock
        self._ring: deque[LogMessage] = deque(maxlen=bound)

    def add(self, server: str, level: str, data: Any, logger: str | None = None, source: str = "protocol") -> None:
        message = LogMessage(server=server, level=level, logger=logger, data=data, source=source, at=self._clock())
        self._ring.append(message)

    def get(self, server: str | None = None, level: str | None = None, limit: int = 100) -> list[LogMessage]:
        """Return the last `limit` messages, newest last, of one server, and of this level or a more severe one.

        Raises:
            InvalidArgument: There is no such level, or the limit is none.
        """
        least = 0 if level is None else _severity(level)
        return _last((message for message in self._ring if message.severity >= least), server, limit)


class Notifications:
    """The last notifications of all servers of one session.

    Reading takes nothing away: what is told once are the events, which have every notification among them. So
    whoever missed an answer can look here, as often as it likes.
    """

    def __init__(self, *, clock: Callable[[], datetime] = utc_now, bound: int = MOST_KEPT) -> None:
        self._clock = clock
        self._ring: deque[Notification] = deque(maxlen=bound)

    def add(self, server: str, method: str, params: dict[str, Any] | None = None) -> Notification:
        notification = Notification(server=server, method=method, params=params or {}, at=self._clock())
        self._ring.append(notification)
        return notification

    def get(self, server: str | None = None, limit: int = 100) -> list[Notification]:
        """Return the last `limit` notifications, newest last.

        Raises:
            InvalidArgument: The limit is none.
        """
        return _last(self._ring, server, limit)


class _FromServer(Protocol):
    @property
    def server(self) -> str: ...


_Kept = TypeVar("_Kept", bound=_FromServer)


def _last(kept: Iterable[_Kept], server: str | None, limit: int) -> list[_Kept]:
    if not 1 <= limit <= MOST_KEPT:
        raise InvalidArgument(f"limit must be from 1 to {MOST_KEPT}, but it is {limit}.")
    return [one for one in kept if server is None or one.server == server][-limit:]


def _severity(level: str) -> int:
    if level not in _SEVERITIES:
        raise InvalidArgument(f"level must be one of {', '.join(LEVELS)}, but it is {level!r:.60}.")
    return _SEVERITIES[level]
