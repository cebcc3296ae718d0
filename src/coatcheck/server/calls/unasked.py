"""A session that asks nothing: for what the SDK does before a tool's body, when the body will run in a task."""

from __future__ import annotations

from typing import Any, NoReturn

from mcp.server.session import ServerSession

from coatcheck.server.calls.stand_in import HandedIn

_ASKS = frozenset({"send_request", "elicit", "elicit_form", "elicit_url", "create_message", "list_roots"})


class Unasked:
    """Before 2026-07-28 a resolver asks over the connection, and would ask again in the task.

    So the call is handed in when the first question comes up; the task then asks it, and everything after it.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return _hand_in if name in _ASKS else getattr(self._session, name)


async def _hand_in(*_: Any, **__: Any) -> NoReturn:
    raise HandedIn
