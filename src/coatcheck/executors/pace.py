"""How often a job is looked at, and how long whoever cannot be reached is left alone."""

from __future__ import annotations

import random

import msgspec

from coatcheck.errors import InvalidArgument


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, all of them."""

    first: float = 0.5
    """Between two looks at a job that does something."""
    longest: float = 10.0
    """Between two looks at one of which nothing is heard. What an engine asks for is heeded up to six times this."""
    wait: float = 20.0
    """For how long an engine that can is asked to hold its answer until there is news."""
    longest_retry: float = 60.0
    """Between two tries to reach an engine that cannot be reached."""
    persistence: float = 600.0
    """For how long one worker tries to stop a job whose task has ended."""

    def __post_init__(self) -> None:
        for name in ("first", "longest", "longest_retry", "persistence"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise InvalidArgument(f"{name} must be a positive number of seconds, but it is {getattr(self, name)}.")
        if not 0.0 <= self.wait < float("inf"):
            raise InvalidArgument(f"wait must be a number of seconds from 0 up, but it is {self.wait}.")

    def between_looks(self, quiet: int, wish: float | None) -> float:
        """Return the pause after so many looks without news; `wish`: what the engine asks for."""
        if wish is not None:
            return min(max(wish, self.first), 6 * self.longest)
        return _spread(min(self.first * 1.5 ** min(quiet, 60), self.longest))

    def between_tries(self, failures: int, wish: float | None) -> float:
        """Return the pause after so many failures in a row; never shorter than what the engine asks for, in reason."""
        usual = min(self.first * 2.0 ** min(failures - 1, 60), self.longest_retry)
        return _spread(max(usual, min(wish or 0.0, 5 * self.longest_retry)))


def _spread(seconds: float) -> float:
    """Those who began together should not go on together."""
    return seconds * random.uniform(1.0, 1.2)
