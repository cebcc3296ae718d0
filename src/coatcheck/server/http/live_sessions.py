"""Sessions that someone waits in, without a request the SDK knows of: now and then it is told that they live."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Scope

_PING = b'{"jsonrpc":"2.0","id":"coatcheck","method":"ping"}'
_SHARE = 4
_MOST = 10_000


class LiveSessions:
    def __init__(self, app: ASGIApp, idle_timeout: float | None) -> None:
        """`idle_timeout`: after how many seconds without a request the SDK ends a session, if at all."""
        self._app = app
        self._interval = None if idle_timeout is None else idle_timeout / _SHARE
        self._touched: dict[bytes, float] = {}

    async def touch(self, scope: Scope) -> None:
        """Let the session of a request live on, if it is time to."""
        session = next(value for name, value in scope["headers"] if name == b"mcp-session-id")
        now = time.monotonic()
        if self._interval is None or now - self._touched.setdefault(session, now) < self._interval:
            return
        if len(self._touched) > _MOST:
            self._touched.clear()
        self._touched[session] = now
        kept = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        headers = [*kept, (b"content-length", b"%d" % len(_PING))]
        await self._app({**scope, "headers": headers}, _ping, _ignore)


async def _ping() -> Message:
    return {"type": "http.request", "body": _PING, "more_body": False}


async def _ignore(message: Message) -> None:
    """Nobody waits for the answer."""
