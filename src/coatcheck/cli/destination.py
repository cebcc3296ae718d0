"""TARGET as one writes it, in: a URL, a command line, or a name in mcp.json; out: what a client takes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

from coatcheck.client.entries import expanded, servers_of
from coatcheck.errors import InvalidArgument

FILES = (".mcp.json", "mcp.json")
"""Where names are looked up, in the current folder."""
_HELP = "a target is a URL, a quoted command line, or a name in .mcp.json"

Destination = str | list[str] | dict[str, Any]


def find(target: str) -> Destination:
    """Return what a target names.

    Raises:
        InvalidArgument: It names nothing; the sentence says what there is.
    """
    if "://" in target.split(" ")[0]:
        return target
    path, colon, name = target.rpartition(":")
    if colon and path.endswith(".json"):
        return _entry(Path(path), name)
    if target.endswith(".json"):
        return _only(Path(target))
    here = {} if " " in target else _servers_here()
    if target in here:
        return expanded(here[target], target)
    return _command(target, list(here))


def _command(target: str, known: list[str]) -> list[str]:
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise InvalidArgument(f"{target!r} is no command line: {error}.") from None
    if not words:
        raise InvalidArgument(f"The target is empty; {_HELP}.")
    if len(words) == 1 and not shutil.which(words[0]):
        there_is = f" (there is {', '.join(known)})" if known else ""
        if re.match(r"[\w.-]+:\d+(/|$)", target):
            raise InvalidArgument(f"{target!r} is no URL; write http://{target}.")
        raise InvalidArgument(f"There is no command {target!r}, and no such name in .mcp.json{there_is}; {_HELP}.")
    return words


def _servers_here() -> dict[str, Any]:
    """Return the servers that the files in this folder name; the first file wins."""
    found: dict[str, Any] = {}
    for path in map(Path, reversed(FILES)):
        if path.is_file():
            found |= _read(path)
    return found


def _entry(path: Path, name: str) -> dict[str, Any]:
    servers = _read(path)
    if name not in servers:
        raise InvalidArgument(f"There is no server {name!r} in {path}; there is {', '.join(servers) or 'none'}.")
    return expanded(servers[name], name)


def _only(path: Path) -> dict[str, Any]:
    servers = _read(path)
    if len(servers) != 1:
        there_is = ", ".join(f"{path}:{name}" for name in servers) or "none"
        raise InvalidArgument(f"{path} has {len(servers)} servers; name one of them: there is {there_is}.")
    ((name, entry),) = servers.items()
    return expanded(entry, name)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise InvalidArgument(f"{path} is no JSON: {error}.") from error
    servers = servers_of(content)
    if servers is None:
        raise InvalidArgument(f"{path} names no servers; they belong under 'mcpServers'.")
    return servers
