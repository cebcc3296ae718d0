"""Functions that are given another `Context` than whoever calls them has, and so are the resolvers they depend on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from mcp.server.mcpserver import Context, Resolve
from mcp.server.mcpserver.utilities.context_injection import find_context_parameter

Function = Callable[..., Any]
SDKContext = Context[Any, Any]


class Translator:
    def __init__(self, translate: Callable[[SDKContext], SDKContext]) -> None:
        self._translate = translate
        self._resolvers: dict[Function, Function] = {}
        """Each is translated once: the SDK runs a resolver once for all that depend on it."""

    def of(self, function: Function) -> Function:
        """Return what to call in its place: same name, same parameters."""
        parameter, hints = find_context_parameter(function), _hints(function)
        changed = {name: self._annotation(hint) for name, hint in hints.items()}
        if parameter is None and changed == hints:
            return function
        wrapper = self._wrapper(function, parameter)
        if changed != hints:
            _annotate(wrapper, function, changed)
        return wrapper

    def _wrapper(self, function: Function, parameter: str | None) -> Function:
        def given(kwargs: dict[str, Any]) -> dict[str, Any]:
            if parameter is None or not isinstance(kwargs.get(parameter), Context):
                return kwargs
            return {**kwargs, parameter: self._translate(kwargs[parameter])}

        if _is_async(function):

            @functools.wraps(function)
            async def on_loop(*args: Any, **kwargs: Any) -> Any:
                return await function(*args, **given(kwargs))

            return on_loop

        @functools.wraps(function)
        def in_thread(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **given(kwargs))

        return in_thread

    def _annotation(self, hint: Any) -> Any:
        notes = get_args(hint) if get_origin(hint) is Annotated else ()
        if not any(isinstance(note, Resolve) for note in notes):
            return hint
        return Annotated[
            tuple(Resolve(self._resolver(note.fn)) if isinstance(note, Resolve) else note for note in notes)
        ]

    def _resolver(self, function: Function) -> Function:
        if function not in self._resolvers:
            self._resolvers[function] = self.of(function)
        return self._resolvers[function]


def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _hints(function: Function) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # the SDK has its own say about annotations it cannot read
        return {}


def _annotate(wrapper: Function, function: Function, hints: Mapping[str, Any]) -> None:
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=hints.get(each.name, each.annotation)) for each in signature.parameters.values()
    ]
    returns = hints.get("return", signature.return_annotation)
    wrapper.__signature__ = signature.replace(parameters=parameters, return_annotation=returns)  # pyright: ignore[reportFunctionMemberAccess]
    wrapper.__annotations__ = dict(hints)
