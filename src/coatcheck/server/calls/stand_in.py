"""What the SDK calls in a tool's place: it hands the call in, or runs the body with its `TaskContext`.

Standing where the tool stands, it is reached only once the SDK has validated the arguments and settled the
questions of `Resolve(...)` parameters, so what is refused in a plain call never becomes a task.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Mapping
from typing import Any, get_args

import anyio.to_thread
from mcp.shared.exceptions import MCPError

from coatcheck import wiring
from coatcheck.context import TaskContext
from coatcheck.dialects.words import INTERNAL_ERROR
from coatcheck.errors import ToolFailed
from coatcheck.server.bodies.plain_context import PlainContext
from coatcheck.server.signatures import hints_of, is_async, show_as
from coatcheck.sync_context import SyncContext


class HandedIn(MCPError):
    """Raised where the body would have begun. An `MCPError`, because those cross the SDK as they are."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "The call was handed in")


handing_in: contextvars.ContextVar[str | None] = contextvars.ContextVar("coatcheck_handing_in", default=None)
"""The tool whose call is being made into a task."""
running: contextvars.ContextVar[TaskContext | None] = contextvars.ContextVar("coatcheck_running", default=None)
"""The task, or the plain call, whose body is running."""


def stand_in(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return what to register with the SDK for `function`: same name, same schema, same result."""
    parameter = _context_parameter(function)
    body = _body(function, name, parameter)

    @functools.wraps(function)
    async def tool(**arguments: Any) -> Any:
        if handing_in.get() == name:
            raise HandedIn
        try:
            return await body(running.get() or PlainContext(name), arguments)
        except ToolFailed as error:
            raise MCPError(INTERNAL_ERROR if error.code is None else error.code, error.message, error.data) from error

    if parameter:
        show_as(tool, function, hints_of(function), without=[parameter])
    return tool


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter that only a stand-in can fill."""
    return _context_parameter(function) is not None


def _body(function: Callable[..., Any], name: str, parameter: str | None) -> wiring.Work:
    def bound(context: TaskContext | SyncContext, /, **arguments: Any) -> Any:
        return function(**arguments, **({parameter: context} if parameter else {}))

    if is_async(function):
        return lambda context, arguments: bound(context, **arguments)
    in_thread = wiring.tool(bound, name=name).work

    async def off_loop(context: TaskContext, arguments: Mapping[str, Any]) -> Any:
        if parameter is None and isinstance(context, PlainContext):
            return await anyio.to_thread.run_sync(functools.partial(function, **arguments))
        return await in_thread(context, arguments)

    return off_loop


def _context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the parameter annotated `TaskContext` or `SyncContext`, which no client may fill."""
    for name, hint in hints_of(function).items():
        if name != "return" and any(kind in (TaskContext, SyncContext) for kind in (hint, *get_args(hint))):
            return name
    return None
