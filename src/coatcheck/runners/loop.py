"""Work on the event loop: async functions. Cancelling is asyncio's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from coatcheck.context import TaskContext
from coatcheck.tool import Work


def on_loop(function: Callable[..., Awaitable[Any]]) -> Work:
    """Make work of an async function that takes the context, then the call's arguments by name."""

    async def work(context: TaskContext, arguments: Mapping[str, Any]) -> Any:
        return await function(context, **arguments)

    return work
