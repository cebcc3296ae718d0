"""What is looked at when a store is opened: the server, whose keys these are, and whether they can be read."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from coatcheck.errors import KeyRefused, StoreUnavailable, StoreUnusable
from coatcheck.stores.codec import Codec
from coatcheck.stores.redis.address import Address
from coatcheck.stores.redis.connection import Word
from coatcheck.stores.redis.link import Link

logger = logging.getLogger("coatcheck")

SCHEMA = 1
_OLDEST = (6, 2)


async def check_server(link: Link) -> Mapping[str, str]:
    """Refuse a server that is too old; return what it says of itself, as far as it does.

    Raises:
        StoreUnusable: It is too old.
    """
    try:
        said = (await link.send("INFO").reply).decode("utf-8", "replace")
    except StoreUnavailable as error:
        if "NOPERM" in str(error) or "unknown command" in str(error):
            return {}  # whoever runs it does not want us to know
        raise
    info = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    version = info.get("redis_version", "")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers and numbers < _OLDEST:
        raise StoreUnusable(f"{link.address} is Redis {version}; use Redis 6.2 or later, or Valkey.")
    return info


def tell(info: Mapping[str, str], address: Address) -> None:
    """Say so where a server may forget tasks."""
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and info.get("maxmemory", "0") != "0":
        logger.warning(
            "%s may drop tasks when its memory is full (maxmemory-policy %s); set it to noeviction.",
            address,
            policy,
        )
    if info.get("aof_enabled") == "0":
        logger.info(
            "%s keeps no log of what is written (appendonly no): if it is restarted, it forgets tasks.", address
        )


def words(codec: Codec) -> tuple[Word, ...]:
    """Return what the script that opens a store has to know."""
    return SCHEMA, codec.key_id or "", *sorted(codec.key_ids)


def check_kept(reply: list[bytes | list[bytes]], link: Link, prefix: str) -> None:
    """Judge what that script says of what is kept there.

    Raises:
        StoreUnusable: It is not ours, or newer than this library.
        KeyRefused: It could not be read with the keys given.
    """
    schema, *missing = reply
    assert isinstance(schema, bytes)
    if not missing:
        number = schema.removeprefix(b"coatcheck ")
        if number == schema or not number.isdigit():
            raise StoreUnusable(
                f"{link.address} has something else than tasks under {prefix!r}; use another name with ?prefix=."
            )
        raise StoreUnusable(
            f"The tasks under {prefix!r} on {link.address} have schema {int(number)}, and this version knows"
            f" {SCHEMA}; use a newer coatcheck, or another name with ?prefix=."
        )
    if key_ids := sorted(key_id.decode() for key_id in missing[0] if isinstance(key_id, bytes)):
        raise KeyRefused(
            f"{link.address} holds tasks sealed with key {', '.join(key_ids)}, which is not among the keys given;"
            " set COATCHECK_KEY to it, or add it after the current key, separated by a comma."
        )
