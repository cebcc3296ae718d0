"""Docket, opened as it serves us: in which Redis, under which name, with how many connections."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qsl, urlencode

from docket import Docket

from coatcheck.errors import InvalidArgument

FUNCTION = "coatcheck"
"""What Docket knows all our tasks as: it carries an id, and the row says which tool it is of."""
DEFAULT_NAME = "coatcheck"
_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")


def new_docket(url: str, slots: int) -> Docket:
    """Return the docket at `redis://host:6379/0?prefix=coatcheck`, which connects when it is entered.

    Raises:
        InvalidArgument: The URL names no Redis.
    """
    address, _, query = url.partition("?")
    scheme, colon, _ = address.partition("://")
    if not colon or scheme not in _SCHEMES:
        raise InvalidArgument(f"Docket needs a Redis, and {scheme or 'this'}:// is none; use redis://host:6379/0.")
    options = dict(parse_qsl(query))
    name = options.pop("prefix", DEFAULT_NAME)
    # Docket takes a connection for each command under way. With too few of them it fails to acknowledge what it ran.
    options.setdefault("max_connections", str(4 * slots + 32))
    # What is over is forgotten at once: what became of a task is in its row.
    return Docket(name=name, url=f"{address}?{urlencode(options)}", execution_ttl=timedelta(0))
