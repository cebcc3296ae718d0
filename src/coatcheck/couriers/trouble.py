"""Something that fails again and again, said once when it begins and once when it is over."""

from __future__ import annotations

import logging

from redis.exceptions import RedisError

from coatcheck.errors import StoreError

logger = logging.getLogger("coatcheck")
_EXPECTED = (StoreError, RedisError, OSError, TimeoutError)


class Trouble:
    def __init__(self, what: str) -> None:
        """`what` cannot be done, in a few words."""
        self._what, self._is_on = what, False

    def begin(self, error: Exception) -> None:
        """Say it, unless it has been said."""
        if not self._is_on:
            known = isinstance(error, _EXPECTED)
            logger.error("%s: %s", self._what, error or type(error).__name__, exc_info=None if known else error)
        self._is_on = True

    def end(self) -> None:
        if self._is_on:
            logger.info("It is over: %s", self._what)
        self._is_on = False
