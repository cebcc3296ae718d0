"""One line of the report: our figure, the one it is held against, the ratio and whether the target is met."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    folder: Path
    """For files; removed after the run."""
    rounds: int
    is_quick: bool

    def scaled(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full


class Target(msgspec.Struct, frozen=True):
    """What the ratio of our figure to the other one should be."""

    comparison: Literal[">=", "<=", "<"]
    limit: float
    least: float = 0.0
    """A ratio below this cannot be: something else disturbed the measurement, and it proves nothing."""

    def accepts(self, ratio: float) -> bool:
        match self.comparison:
            case ">=":
                return ratio >= self.limit
            case "<=":
                return ratio <= self.limit
            case "<":
                return ratio < self.limit


BELOW_BOUND = Target("<", 1.0)


class Round(NamedTuple):
    ours: float
    rival: float
    """The rival's figure, or the bound's."""
    cpu_us_ours: float | None = None
    cpu_us_rival: float | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    unit: str
    ours: float
    rival_name: str | None
    rival: float | None
    ratio: float | None
    ratio_min: float | None
    ratio_max: float | None
    target: Target | None
    is_met: bool | None
    is_met_in_every_round: bool | None
    is_disturbed: bool = False
    """No verdict: the ratio is one that cannot be."""
    fdatasync_us: tuple[float, float] | None = None
    """What the disk took just before and just after: ratios of durable work depend on it."""
    rounds: int
    cpu_us_ours: float | None
    """Processor time per operation, of all threads."""
    cpu_us_rival: float | None
    note: str


def compared(
    name: str, unit: str, rounds: Sequence[Round], *, rival: str, target: Target | None, note: str = ""
) -> Line:
    """Judge the median of the rounds' ratios: what disturbs the machine disturbs both sides of a round."""
    ratios = [ours / rival for ours, rival, *_ in rounds]
    is_disturbed = target is not None and min(ratios) < target.least
    judged = None if is_disturbed else target
    return Line(
        name=name,
        unit=unit,
        ours=median(ours for ours, *_ in rounds),
        rival_name=rival,
        rival=median(each.rival for each in rounds),
        ratio=median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        target=target,
        is_met=judged.accepts(median(ratios)) if judged else None,
        is_met_in_every_round=all(map(judged.accepts, ratios)) if judged else None,
        is_disturbed=is_disturbed,
        rounds=len(rounds),
        cpu_us_ours=_median([each.cpu_us_ours for each in rounds]),
        cpu_us_rival=_median([each.cpu_us_rival for each in rounds]),
        note=note,
    )


def bounded(name: str, unit: str, figures: Sequence[float], *, bound: float, note: str = "") -> Line:
    rounds = [Round(figure, bound) for figure in figures]
    return compared(name, unit, rounds, rival="bound", target=BELOW_BOUND, note=note)


def plain(name: str, unit: str, figures: Sequence[float], *, note: str = "") -> Line:
    """A figure that is only reported."""
    return Line(
        name=name,
        unit=unit,
        ours=median(figures),
        rival_name=None,
        rival=None,
        ratio=None,
        ratio_min=None,
        ratio_max=None,
        target=None,
        is_met=None,
        is_met_in_every_round=None,
        rounds=len(figures),
        cpu_us_ours=None,
        cpu_us_rival=None,
        note=note,
    )


def percentile(figures: Sequence[float], percent: float) -> float:
    """Return the smallest figure that `percent` of all are not above."""
    ordered = sorted(figures)
    return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]


def _median(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else None
