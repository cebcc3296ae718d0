"""Who waits for work in this process: for each task that turns up, one is called, not all."""

from __future__ import annotations

from collections.abc import Collection


class Seat:
    """One who waits for work of some tools. `calls`: tools there is work for, not looked at yet."""

    __slots__ = ("calls", "tools")

    def __init__(self, tools: Collection[str]) -> None:
        self.tools = frozenset(tools)
        self.calls: list[str] = []


class Idle:
    def __init__(self) -> None:
        self._seats: dict[str, dict[Seat, None]] = {}

    def sit(self, seat: Seat) -> None:
        for tool in seat.tools:
            self._seats.setdefault(tool, {})[seat] = None

    def leave(self, seat: Seat) -> None:
        for tool in seat.tools:
            if seats := self._seats.get(tool):
                seats.pop(seat, None)
                if not seats:
                    del self._seats[tool]

    def has_others(self, seat: Seat) -> bool:
        """Say whether somebody else waits for one of the same tools."""
        return any(self._seats.get(tool, {}).keys() - {seat} for tool in seat.tools)

    def call(self, tool: str) -> Seat | None:
        """Return who has waited longest for work of this tool, and will not be called again until it sits down."""
        seat = next(iter(self._seats.get(tool, ())), None)
        if seat:
            self.leave(seat)
            seat.calls.append(tool)
        return seat
