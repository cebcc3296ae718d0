"""What is an upstream's is shown under its server's name: `server__tool`, and `server+scheme://…`."""

from __future__ import annotations

import re
from collections.abc import Collection

from coatcheck.errors import InvalidArgument

SEPARATOR = "__"
_NO_SCHEME = re.compile(r"[^A-Za-z0-9.-]+")


class Naming:
    """Names of tools and prompts, and URIs of resources, with and without a prefix."""

    def __init__(self, *, prefixes: bool = True) -> None:
        """`prefixes=False`: there is but one server, and its names stay as they are."""
        self._prefixes = prefixes
        self.own: Collection[str] = ()
        """Names that are the proxy's."""

    def name(self, server: str, name: str) -> str:
        return f"{server}{SEPARATOR}{name}" if self._prefixes else name

    def find(self, name: str, servers: Collection[str]) -> tuple[str, str] | None:
        """Return the server and its own word for what is shown as `name`: of several, the longest server's name."""
        if name in self.own:
            return None
        if not self._prefixes:
            return next(((server, name) for server in servers), None)
        fitting = [server for server in servers if name.startswith(server + SEPARATOR)]
        if not fitting:
            return None
        server = max(fitting, key=len)
        return server, name[len(server) + len(SEPARATOR) :]

    def uri(self, server: str, uri: str) -> str:
        return f"{_scheme(server)}+{uri}" if self._prefixes else uri

    def find_uri(self, uri: str, servers: Collection[str]) -> tuple[str, str] | None:
        if not self._prefixes:
            return next(((server, uri) for server in servers), None)
        scheme, plus, rest = uri.partition("+")
        server = next((server for server in servers if _scheme(server) == scheme), None) if plus else None
        return (server, rest) if server is not None else None


def check_prefix(name: str, others: Collection[str]) -> None:
    """Raises InvalidArgument if the resources of a server would look like those of another."""
    same = next((other for other in others if other != name and _scheme(other) == _scheme(name)), None)
    if same:
        raise InvalidArgument(f"{name!r} is too much like {same!r}; their resources could not be told apart.")


def _scheme(server: str) -> str:
    """Return a server's name as the beginning of a URI's scheme, which has fewer letters."""
    slug = _NO_SCHEME.sub("-", server).strip("-.").lower()
    return slug if slug[:1].isalpha() else f"s{slug}"
