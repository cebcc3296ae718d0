"""An issuer's keys at hand: fetched when they are needed, kept while it is away, however much strangers ask for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

from coatcheck.server.access.tokens.issuer import Issuer
from coatcheck.server.access.tokens.keyset import KeySet, NoKeys, read_key_set

logger = logging.getLogger("coatcheck")

_FRESH_SECONDS = 300.0
"""After this they are fetched anew: a key that was withdrawn is good for so long."""
_KEPT_SECONDS = 86_400.0
"""After this, keys that could not be fetched anew are not used any more."""
_PACE_SECONDS = 10.0
"""Between two fetches, whatever comes: tokens may name keys that do not exist."""


class Keys:
    """The keys of one issuer. Those who wait for them wait for one fetch together."""

    def __init__(self, issuer: Issuer, algorithms: Collection[str], clock: Callable[[], float]) -> None:
        self._issuer, self._algorithms, self._clock = issuer, algorithms, clock
        self._known: KeySet | None = None
        self._known_since = self._tried_at = -float("inf")
        self._fetching: asyncio.Task[None] | None = None
        self._is_away = False

    async def fitting(self, kid: str | None, algorithm: str) -> list[Any]:
        """Return the keys that may have signed a token with this head, as far as they can be had."""
        if not self._is_recent(self._known_since, _FRESH_SECONDS):
            fetch = self._fetch()
            # Known keys serve on at once while the issuer is known to be away.
            if fetch and not (self._is_away and self._keys()):
                await asyncio.shield(fetch)
        found = self._found(kid, algorithm)
        if not found and (fetch := self._fetch()):
            await asyncio.shield(fetch)
            found = self._found(kid, algorithm)
        return found

    def _found(self, kid: str | None, algorithm: str) -> list[Any]:
        keys = self._keys()
        return keys.fitting(kid, algorithm) if keys else []

    def _keys(self) -> KeySet | None:
        return self._known if self._is_recent(self._known_since, _KEPT_SECONDS) else None

    def _is_recent(self, since: float, seconds: float) -> bool:
        """Whether it is no longer ago than that; what lies in the future was there before the clock was put back."""
        return 0.0 <= self._clock() - since < seconds

    def _fetch(self) -> asyncio.Task[None] | None:
        """Return the fetch that is under way, or begin one; None: it is not time for one."""
        under_way = self._fetching
        if under_way and not under_way.done() and under_way.get_loop() is asyncio.get_running_loop():
            return under_way
        if self._is_recent(self._tried_at, _PACE_SECONDS):
            return None
        self._tried_at = self._clock()
        self._fetching = asyncio.create_task(self._renew(), name="coatcheck: keys of an issuer")
        return self._fetching

    async def _renew(self) -> None:
        try:
            self._known = read_key_set(await self._issuer.fetch(), self._algorithms)
        except NoKeys as reason:
            self._say_it_is_away(reason)
            return
        self._known_since = self._clock()
        if self._is_away:
            logger.info("The keys of %s are there again", self._issuer.name)
        self._is_away = False

    def _say_it_is_away(self, reason: NoKeys) -> None:
        """Once for each time it is away, and not for each token."""
        if self._is_away:
            return
        self._is_away = True
        if self._keys():
            logger.warning("The keys of %s cannot be fetched: %s. Known ones serve on.", self._issuer.name, reason)
        else:
            logger.error(
                "The keys of %s cannot be fetched: %s. None are known, so its tokens are refused.",
                self._issuer.name,
                reason,
            )


class FixedKeys:
    """Keys that were given and do not change."""

    def __init__(self, keys: KeySet) -> None:
        self._keys = keys

    async def fitting(self, kid: str | None, algorithm: str) -> list[Any]:
        return self._keys.fitting(kid, algorithm)
