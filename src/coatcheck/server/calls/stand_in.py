"""What the SDK calls in a tool's place: it hands the call in, or runs the body with its `TaskContext`.

Standing where the tool stands, it is reached only once the SDK has validated the arguments and settled the
questions of `Resolve(...)` parameters, so what is refused in a plain call never becomes a task.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

import anyio.to_thread
from mcp.shared.exceptions import MCPError

from coatcheck import wiring
from coatcheck.context import TaskContext
from coatcheck.dialects.words import INTERNAL_ERROR
from coatcheck.errors import ToolFailed
from coatcheck.server.bodies.plain_context import PlainContext
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
        _hide(tool, function, parameter)
    return tool


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter that only a stand-in can fill."""
    return _context_parameter(function) is not None


def _body(function: Callable[..., Any], name: str, parameter: str | None) -> wiring.Work:
    def bound(context: TaskContext | SyncContext, /, **arguments: Any) -> Any:
        return function(**arguments, **({parameter: context} if parameter else {}))

    if _is_async(function):
        return lambda context, arguments: bound(context, **arguments)
    in_thread = wiring.tool(bound, name=name).work

    async def off_loop(context: TaskContext, arguments: Mapping[str, Any]) -> Any:
        if parameter is None and isinstance(context, PlainContext):
            return await anyio.to_thread.run_sync(functools.partial(function, **arguments))
        return await in_thread(context, arguments)

    return off_loop


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the parameter annotated `TaskContext` or `SyncContext`, which no client may fill."""
    for name, hint in _hints(function).items():
        if name != "return" and any(kind in (TaskContext, SyncContext) for kind in (hint, *get_args(hint))):
            return name
    return None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # the SDK has its own say about annotations it cannot read
        return {}


def _hide(tool: Callable[..., Any], function: Callable[..., Any], parameter: str) -> None:
    hints = _hints(function)
    signature = inspect.signature(function)
    shown = [
        given.replace(annotation=hints.get(given.name, given.annotation))
        for given in signature.parameters.values()
        if given.name != parameter
    ]
    returns = hints.get("return", signature.return_annotation)
    tool.__signature__ = signature.replace(parameters=shown, return_annotation=returns)  # pyright: ignore[reportFunctionMemberAccess]
    tool.__annotations__ = {name: hint for name, hint in hints.items() if name != parameter}
