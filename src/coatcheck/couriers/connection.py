"""Docket as a URL has it: in which Redis, under which name, with which limits and how many connections."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qsl, urlencode

from docket import Docket

from coatcheck.couriers.limits import Limits
from coatcheck.errors import InvalidArgument

FUNCTION = "coatcheck"
"""What Docket knows all our tasks as: it carries an id, and the row says which tool it is of."""
DEFAULT_NAME = "coatcheck"
_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")


def new_docket(url: str, slots: int) -> tuple[Docket, Limits]:
    """Return the docket at `redis://host:6379/0?prefix=coatcheck&per_owner=2`, which connects when it is entered.

    Raises:
        InvalidArgument: The URL names no Redis, or no limits.
    """
    address, _, query = url.partition("?")
    scheme, colon, _ = address.partition("://")
    if not colon or scheme not in _SCHEMES:
        shown = f"{scheme}://" if colon and scheme.isalnum() else "this"  # which may hold a password
        raise InvalidArgument(f"Docket needs a Redis, and {shown} is none; use redis://host:6379/0.")
    options = dict(parse_qsl(query))
    name = options.pop("prefix", DEFAULT_NAME)
    limits = Limits(per_tool=_number(options, "per_tool"), per_owner=_number(options, "per_owner"))
    # Docket takes a connection for each command under way. With too few of them it fails to acknowledge what it ran.
    options.setdefault("max_connections", str(4 * slots + 32))
    # What is over is forgotten at once: what became of a task is in its row.
    return Docket(name=name, url=f"{address}?{urlencode(options)}", execution_ttl=timedelta(0)), limits


def _number(options: dict[str, str], name: str) -> int | None:
    said = options.pop(name, None)
    if said is not None and not said.isdecimal():
        raise InvalidArgument(f"{name} in Docket's URL must be a number, but it is {said!r:.60}.")
    return None if said is None else int(said)
