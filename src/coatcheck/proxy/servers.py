"""Which servers there are: the same for all sessions, which are told when that changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from coatcheck.errors import InvalidArgument
from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.naming import check_prefix


class Watcher(Protocol):
    def server_added(self, entry: ServerEntry) -> None: ...

    def server_removed(self, name: str) -> None: ...


class Servers:
    def __init__(self, entries: Mapping[str, ServerEntry]) -> None:
        self._entries = dict(entries)
        self.watchers: set[Watcher] = set()
        self.learned: dict[str, str] = {}
        """How to speak to servers for clients of older generations, as far as it was found out."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def get(self, name: str) -> ServerEntry:
        """Raises InvalidArgument if there is no such server."""
        if name not in self._entries:
            there_is = ", ".join(self._entries) or "none"
            raise InvalidArgument(f"There is no server {name!r}; there is {there_is}.")
        return self._entries[name]

    def add(self, entry: ServerEntry, *, keeps_terms: bool = False) -> None:
        """Take one more server, or another in place of the one of that name. `keeps_terms`: for the same callers."""
        check_prefix(entry.name, self._entries)
        if entry.name in self._entries:
            entry = replace(entry, terms=self._entries[entry.name].terms) if keeps_terms else entry
            self.remove(entry.name)
        self._entries[entry.name] = entry
        for watcher in list(self.watchers):
            watcher.server_added(entry)

    def remove(self, name: str) -> None:
        self.get(name)
        del self._entries[name]
        self.learned.pop(name, None)
        for watcher in list(self.watchers):
            watcher.server_removed(name)
