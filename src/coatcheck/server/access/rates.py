"""How often tools may be called: a token bucket for each caller, or one for all of them."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from coatcheck.errors import InvalidArgument, TooOften
from coatcheck.policy import Duration, duration

_REMEMBERED = 100_000
_SECOND, _MINUTE, _HOUR, _DAY = 1.0, 60.0, 3600.0, 86400.0
_WORDS = {_SECOND: "a second", _MINUTE: "a minute", _HOUR: "an hour", _DAY: "a day"}
Whose = Literal["caller", "everyone"]


@dataclass(frozen=True, slots=True)
class Rate:
    """So many calls in so much time: `Rate(10)` is ten a minute, for each caller."""

    calls: float
    per: Duration = _MINUTE
    _: KW_ONLY
    burst: int | None = None
    """How many may come at once; left out: as many as there may be in all that time."""
    of: Whose = "caller"
    """Whether each caller has a bucket of its own, or all have one."""

    def __post_init__(self) -> None:
        duration("per", self.per)
        if not 0 < self.calls < math.inf:
            raise InvalidArgument(f"A rate must allow more than 0 calls, but it is {self.calls}.")
        if self.burst is not None and self.burst < 1:
            raise InvalidArgument(f"burst must be at least 1, but it is {self.burst}.")

    @property
    def bucket(self) -> tuple[float, float]:
        """Return how many tokens there are at most, and how many come in a second."""
        size = max(self.calls, 1.0) if self.burst is None else float(self.burst)
        return size, self.calls / duration("per", self.per).total_seconds()

    def __str__(self) -> str:
        seconds = duration("per", self.per).total_seconds()
        often = f"{self.calls:g} times {_WORDS.get(seconds, f'in {seconds:g} s')}"
        return f"may be called {often}{' by all callers together' if self.of == 'everyone' else ''}"


RateWish = Rate | Sequence[Rate]
Limited = tuple[Hashable, str, Sequence[Rate]]
"""Something with rates: a key of its own, what it is called towards callers, and the rates."""


def rates_of(wish: RateWish | None) -> tuple[Rate, ...]:
    if wish is None:
        return ()
    return (wish,) if isinstance(wish, Rate) else tuple(wish)


class Rates:
    """The rates of a server: for all its tools together, and for each."""

    def __init__(self, rates: RateWish | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.all, self._of_tools = rates_of(rates), dict[str, tuple[Rate, ...]]()
        self._shared = dict[str, Limited]()
        self._buckets = Buckets(clock)

    def __bool__(self) -> bool:
        return bool(self.all or self._of_tools or self._shared)

    def set(self, tool: str, rates: RateWish) -> None:
        self._of_tools[tool] = rates_of(rates)

    def share(self, tool: str, group: str, rates: Sequence[Rate]) -> None:
        """Hold a tool to rates that all of a group have together."""
        self._shared[tool] = (group, f"The tools of {group}", tuple(rates))

    def of(self, tool: str) -> tuple[Rate, ...]:
        return self._of_tools.get(tool, ())

    def remove(self, tool: str) -> None:
        self._of_tools.pop(tool, None)
        self._shared.pop(tool, None)

    def check(self, tool: str, owner: str | None) -> None:
        """Count one call.

        Raises:
            TooOften: It was one too many, and was not counted.
        """
        self.take(self.limits(tool), owner)

    def limits(self, tool: str) -> Sequence[Limited]:
        """Return what a call of a tool counts towards."""
        ours = (None, "The tools of this server", self.all), (tool, f"Tool {tool!r}", self.of(tool))
        return (*ours, self._shared[tool]) if tool in self._shared else ours

    def take(self, limited: Iterable[Limited], owner: str | None) -> None:
        """Count one use of each of these, or of none.

        Raises:
            TooOften: It was one too many, and was not counted.
        """
        wanted: dict[Hashable, tuple[float, float]] = {}
        said: dict[Hashable, tuple[str, Rate]] = {}
        for whose, what, rates in limited:
            for number, rate in enumerate(rates):
                key = (whose, number, rate.of, owner if rate.of == "caller" else None)
                wanted[key] = rate.bucket
                said[key] = (what, rate)
        if refused := self._buckets.take(wanted):
            key, wait = refused
            what, rate = said[key]
            raise TooOften(what, str(rate), wait)


class Buckets:
    """Token buckets by key. Those that were not used for longest are forgotten first: they are full again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def take(self, wanted: Mapping[Hashable, tuple[float, float]]) -> tuple[Hashable, float] | None:
        """Take a token from each of these buckets, given with their size and what comes in a second.

        None: done. Else nothing was taken: the bucket that lacks one for longest, and in how many seconds it has one.
        """
        now = self._clock()
        left = {key: self._left(key, *bucket, now) for key, bucket in wanted.items()}
        waits = {key: (1 - left[key]) / wanted[key][1] for key in wanted if left[key] < 1}
        for key, tokens in left.items():
            self._tokens[key] = (tokens if waits else tokens - 1, now)
            self._tokens.move_to_end(key)
        while len(self._tokens) > _REMEMBERED:
            self._tokens.popitem(last=False)
        return max(waits.items(), key=lambda wait: wait[1]) if waits else None

    def _left(self, key: Hashable, size: float, per_second: float, now: float) -> float:
        tokens, since = self._tokens.get(key, (size, now))
        return min(size, tokens + (now - since) * per_second)
