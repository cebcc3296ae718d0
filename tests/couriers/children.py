"""Processes of these tests."""

from __future__ import annotations

from tests.couriers.programs import run
from tests.crash.children import PATIENCE, Child
from tests.forked import fork

__all__ = ["PATIENCE", "Child", "Children"]


class Children:
    def __init__(self) -> None:
        self._all: list[Child] = []

    async def start(self, program: str, *arguments: object) -> Child:
        child = Child(*await fork(run, program, *map(str, arguments), stream=1))
        self._all.append(child)
        return child

    async def clean_up(self) -> None:
        for child in self._all:
            await child.clean_up()
