"""Which servers are asked, of all that something was handed in to: a token is for one of them, and no other sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from coatcheck.cli.destination import Destination, find
from coatcheck.cli.options import Access
from coatcheck.client.ledger import Entry
from coatcheck.client.targets import target_of
from coatcheck.errors import InvalidArgument


@dataclass(frozen=True)
class Asked:
    """What was handed in to the servers that are asked; `destination`: the one that was named, and how to reach it."""

    entries: Sequence[Entry]
    destination: Destination | None = None

    def destination_of(self, target: Mapping[str, Any]) -> Destination:
        return dict(target) if self.destination is None else self.destination


def narrowed(found: Sequence[Entry], name: str | None, access: Access) -> Asked:
    """Return what of the ledger is asked about: at the server called `name`, or at all.

    Raises:
        InvalidArgument: There are several, and nobody said which of them may see the token.
    """
    if name is not None:
        destination = find(name)
        spec = target_of(destination, None, None).spec
        return Asked([entry for entry in found if dict(entry.target) == spec], destination)
    addresses = {urlsplit(str(entry.target["url"])).netloc for entry in found if "url" in entry.target}
    if (access.token or access.headers) and len(addresses) > 1:
        raise InvalidArgument(
            f"There are tasks at {len(addresses)} addresses, and a token or a header is for one of them; "
            "name its server with --target."
        )
    return Asked(found)
