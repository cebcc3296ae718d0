"""Functions that are given another `Context` than whoever calls them has, and so are the resolvers they depend on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from mcp.server.mcpserver import Context, Resolve
from mcp.server.mcpserver.utilities.context_injection import find_context_parameter

from coatcheck.server.signatures import Function, hints_of, is_async, show_as

SDKContext = Context[Any, Any]


class Translator:
    def __init__(self, translate: Callable[[SDKContext], SDKContext]) -> None:
        self._translate = translate
        self._resolvers: dict[Function, Function] = {}
        """Each is translated once: the SDK runs a resolver once for all that depend on it."""

    def of(self, function: Function) -> Function:
        """Return what to call in its place: same name, same parameters."""
        parameter, hints = find_context_parameter(function), hints_of(function)
        changed = {name: self._annotation(hint) for name, hint in hints.items()}
        if parameter is None and changed == hints:
            return function
        wrapper = self._wrapper(function, parameter)
        if changed != hints:
            show_as(wrapper, function, changed)
        return wrapper

    def _wrapper(self, function: Function, parameter: str | None) -> Function:
        def given(kwargs: dict[str, Any]) -> dict[str, Any]:
            if parameter is None or not isinstance(kwargs.get(parameter), Context):
                return kwargs
            return {**kwargs, parameter: self._translate(kwargs[parameter])}

        if is_async(function):

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
