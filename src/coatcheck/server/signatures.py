"""What functions of authors look like, and making others look like them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

Function = Callable[..., Any]


def is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def hints_of(function: Function) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # the SDK has its own say about annotations it cannot read
        return {}


def show_as(wrapper: Function, function: Function, hints: dict[str, Any], *, without: Sequence[str] = ()) -> None:
    """Have a wrapper shown with the function's parameters under these annotations, but for some of them."""
    signature = inspect.signature(function)
    shown = [
        each.replace(annotation=hints.get(each.name, each.annotation))
        for each in signature.parameters.values()
        if each.name not in without
    ]
    returns = hints.get("return", signature.return_annotation)
    wrapper.__signature__ = signature.replace(parameters=shown, return_annotation=returns)  # pyright: ignore[reportFunctionMemberAccess]
    wrapper.__annotations__ = {name: hint for name, hint in hints.items() if name not in without}
