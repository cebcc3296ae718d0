"""What the errors of a Redis mean: try again, look elsewhere, or give up and say what to do."""

from __future__ import annotations

import re

from hiredis import ReplyError

from coatcheck.errors import StoreError, StoreUnavailable, StoreUnusable
from coatcheck.stores.redis.address import Address, Place

_PASSING = ("TRYAGAIN", "ASK", "BUSY")
_ELSEWHERE = ("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS")
_LASTING = ("NOAUTH", "WRONGPASS", "NOPERM", "OOM", "WRONGTYPE", "MOVED")
_CODE = re.compile(rf"(?:^|[\s-])({'|'.join((*_PASSING, *_ELSEWHERE, *_LASTING))})\s")
"""Errors of commands inside of a script come with words before their code, other ones in each version of Redis."""


_FORBIDDEN = "user executing the script can't", "ACL failure in script"
"""What takes the place of NOPERM inside of a script: in Redis 6, and in later ones and Valkey."""


class NotNow(Exception):
    """It will do what was asked of it later, or another one will."""


class NotHere(NotNow):
    """Of several servers, another may be the primary now."""


class Moved(NotNow):
    """Another node of the cluster has what was asked for."""

    def __init__(self, place: Place) -> None:
        super().__init__(f"moved to {place[0]}:{place[1]}")
        self.place = place


def is_unknown_script(error: ReplyError) -> bool:
    return str(error).startswith("NOSCRIPT")


def meaning(error: ReplyError, address: Address) -> NotNow | StoreError:
    text = str(error)
    found = _CODE.search(text)
    code = found[1] if found else "NOPERM" if any(words in text for words in _FORBIDDEN) else "ERR"
    if code in _PASSING or "max number of clients" in text:
        return NotNow(text)
    if code in _ELSEWHERE:
        return NotHere(text)
    if code == "MOVED":
        host, _, port = text.split()[2].rpartition(":")
        return Moved((host, int(port)))
    match code:
        case "NOAUTH" | "WRONGPASS":
            advice = "does not accept this user and password; put the right ones into the URL"
        case "NOPERM":
            rule = f"~{{{address.prefix}}}:* &{{{address.prefix}}}:* +@all"
            advice = f"does not let this user do what a store has to ({text}); give it the rule: {rule}"
        case "OOM":
            advice = "has no memory left; raise its maxmemory, or keep results for a shorter time"
        case "WRONGTYPE":
            return StoreUnusable(
                f"{address} has keys under {address.prefix!r} that are not ours; use another name with ?prefix=."
            )
        case _:
            advice = f"refuses: {text}; look into its log and its configuration"
    return StoreUnavailable(f"{address} {advice}.")
