"""The servers of an `mcp.json`: a bad entry is told with its line, and the others are taken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from coatcheck.client.entries import expanded, servers_of
from coatcheck.client.targets import Target, target_of
from coatcheck.dialects import v2025, v2026
from coatcheck.errors import InvalidArgument
from coatcheck.proxy.access.terms import SECTION, Terms, terms_of
from coatcheck.proxy.naming import check_prefix

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SPACE = re.compile(r"[ \t\r\n]*")
_PROTOCOLS = (v2026.VERSION, v2025.VERSION)
_SECTIONS = ("mcpServers", "servers")


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How to reach one server."""

    name: str
    entry: Mapping[str, Any]
    terms: Terms = Terms()
    """Who may use it, and how often."""

    @property
    def is_process(self) -> bool:
        return "url" not in self.entry

    @property
    def protocol(self) -> str | None:
        """The generation of the protocol to speak to it, if its entry says so."""
        return self.entry.get("protocol")

    def target(self) -> Target:
        """Raises InvalidArgument if it leads nowhere."""
        return target_of(self.entry, None, None)

    def describe(self) -> dict[str, Any]:
        """Return what may be shown of it: nothing secret."""
        target = self.target()
        return {"type": "stdio" if self.is_process else "http", "target": target.label}


@dataclass(frozen=True, slots=True)
class Config:
    servers: dict[str, ServerEntry] = field(default_factory=dict[str, ServerEntry])
    problems: list[str] = field(default_factory=list[str])
    """What is wrong with the entries that were left out, a sentence each."""
    terms: Terms = Terms()
    """Who may use any of them, and the proxy's own tools."""

    @property
    def needs_names(self) -> bool:
        """Whether something is only for callers who are known by name."""
        return self.terms.need_names or any(entry.terms.need_names for entry in self.servers.values())


def read_config(path: Path) -> Config:
    """Read a file.

    Raises:
        InvalidArgument: It cannot be read, or has no servers in it at all.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path} is no text in UTF-8; save it as such.") from error
    try:
        content = json.loads(text)
        servers = servers_of(content)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is no JSON: {error}.") from error
    if servers is None:
        raise InvalidArgument(f"{path} names no servers; they belong under 'mcpServers'.")
    lines = dict(_lines(text))
    config = Config(terms=_of_all(path, text, content))
    for name, entry in servers.items():
        if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("disabled") is True:
            continue
        try:
            known = server_entry(name, entry)
            check_prefix(name, config.servers)
            config.servers[name] = known
        except InvalidArgument as error:
            config.problems.append(f"{path}:{lines.get(name, 1)}: {name!r} is left out: {error}")
    return config


def _of_all(path: Path, text: str, content: Mapping[str, Any]) -> Terms:
    """Return what the file says of all servers. If that is wrong, none may be served: it would be for everyone."""
    try:
        return terms_of(content.get(SECTION))
    except InvalidArgument as error:
        line = next(text.count("\n", 0, at) + 1 for name, at, _ in _members(text, _skip(text, 0)) if name == SECTION)
        raise InvalidArgument(f"{path}:{line}: {error}") from error


def server_entry(name: str, entry: Any, *, expands: bool = True) -> ServerEntry:
    """Return an entry that can be used. `expands`: whether it may speak of variables of our environment.

    Raises:
        InvalidArgument: It cannot, and why.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name!r} is no name for a server; use up to 64 letters, digits, dots, dashes and underscores."
        )
    filled = expanded(entry, name, fills=expands)
    if "url" in filled and filled.get("command") is not None:
        raise InvalidArgument(f"The entry of {name} has both a 'url' and a 'command'; leave one of them out.")
    if filled.get("command") == "":
        raise InvalidArgument(f"The 'command' of {name} is empty.")
    _check_kinds(name, filled)
    if filled.get("protocol") not in (None, *_PROTOCOLS):
        raise InvalidArgument(f"'protocol' of {name} must be one of {', '.join(_PROTOCOLS)}.")
    known = ServerEntry(name, filled, terms_of(filled.get(SECTION)))
    known.target()
    return known


def _check_kinds(name: str, entry: Mapping[str, Any]) -> None:
    if not isinstance(entry.get("args") or [], list):
        raise InvalidArgument(f"'args' of {name} must be a list.")
    for word in ("env", "headers"):
        if not isinstance(entry.get(word) or {}, dict):
            raise InvalidArgument(f"{word!r} of {name} must be an object.")
    texts: list[Any] = [
        entry.get("cwd") or "",
        *(entry.get("args") or []),
        *(entry.get("env") or {}).values(),
        *(entry.get("headers") or {}).values(),
    ]
    headers: dict[str, Any] = entry.get("headers") or {}
    if any("\n" in f"{word}{value}" or "\r" in f"{word}{value}" for word, value in headers.items()):
        raise InvalidArgument(f"'headers' of {name} have a line break in them.")
    if not all(isinstance(text, str) for text in texts):
        raise InvalidArgument(f"'cwd', 'args', 'env' and 'headers' of {name} may have only text in them.")


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Give the names of a file's entries with the lines they are on."""
    found = {section: start for section, _, start in _members(text, _skip(text, 0)) if section in _SECTIONS}
    start = next((found[section] for section in _SECTIONS if section in found), None)
    if start is not None and text[start] == "{":
        for name, at, _ in _members(text, start):
            yield name, text.count("\n", 0, at) + 1


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Give the keys of the object at a position, where they are, and where their values begin.

    The text is known to be JSON.
    """
    scan = json.JSONDecoder().raw_decode
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, after = scan(text, at)
        start = _skip(text, _skip(text, after) + 1)
        yield name, at, start
        at = _skip(text, scan(text, start)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
