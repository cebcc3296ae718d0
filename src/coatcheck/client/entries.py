"""Entries of `mcpServers`, as people have them in their files: with variables of the environment in them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

from coatcheck.errors import InvalidArgument

_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")


def servers_of(content: Any) -> dict[str, Any] | None:
    """Return the entries of a file's content by name; None: there are none in it."""
    if not isinstance(content, Mapping):
        return None
    found = cast("Mapping[str, Any]", content)
    servers: Any = found.get("mcpServers", found.get("servers"))
    return cast("dict[str, Any]", servers) if isinstance(servers, dict) else None


def expanded(entry: Any, name: str, *, fills: bool = True) -> dict[str, Any]:
    """Return an entry with `${VARIABLE}` and `${VARIABLE:-default}` filled in.

    Raises:
        InvalidArgument: It is no entry, or needs a variable that is not set.
    """
    match entry:
        case {"type": "sse"}:
            raise InvalidArgument(f"{name} is served over SSE, which is not supported; use its streamable HTTP URL.")
        case {"url": str()} | {"command": str()}:
            said = cast("Mapping[Any, Any]", entry)
            return {str(word): _fill(value, name) if fills else value for word, value in said.items()}
        case _:
            raise InvalidArgument(f"The entry of {name} has neither a 'url' nor a 'command'.")


def _fill(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, name), value)
    if isinstance(value, list):
        return [_fill(each, name) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {word: _fill(each, name) for word, each in cast("Mapping[str, Any]", value).items()}
    return value


def _variable(found: re.Match[str], name: str) -> str:
    value = cast("str | None", os.environ.get(found[1], found[2]))
    if value is None:
        raise InvalidArgument(f"The entry of {name} needs the variable {found[1]}, which is not set.")
    return value
