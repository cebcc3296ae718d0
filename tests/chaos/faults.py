"""What goes wrong, and when: drawn by lot, the same for the same seed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from signal import SIGCONT, SIGINT, SIGSTOP

from tests.chaos.history import History
from tests.chaos.nodes import Node
from tests.chaos.orphans import Orphans
from tests.chaos.places import Place
from tests.chaos.terms import LEASE

_PROCESS = ("kill", "kill", "kill", "stop", "stop past the lease")
_NETWORK = (
    "cut",
    "refuse",
    "freeze and heal",
    "freeze and cut",
    "deafen and cut",
    "mute and cut",
    "half-close and cut",
)
_DATABASE = ("database kill", "database kill", "database restart", "database hang")


@dataclass(frozen=True)
class Fault:
    at: float
    what: str
    victim: int
    lasts: float


def schedule(chance: Random, seconds: float, nodes: int, *, has_server: bool) -> list[Fault]:
    """Return faults of all kinds, in any order, spread over so many seconds; and then again from the beginning."""
    faults: list[Fault] = []
    kinds = (*_PROCESS, *_NETWORK, *_DATABASE) if has_server else _PROCESS
    pace = min(1.5, seconds / len(kinds))
    at = 0.5
    while at < seconds:
        for what in chance.sample(kinds, len(kinds)):
            faults.append(Fault(at, what, chance.randrange(nodes), _duration(chance, what)))
            at += pace * chance.uniform(0.5, 1.5)
    return [fault for fault in faults if fault.at < seconds]


def _duration(chance: Random, what: str) -> float:
    match what:
        case "kill" | "cut":
            return chance.choice((0.0, 0.5))
        case "stop":
            return chance.uniform(0.1, 1.5) * LEASE
        case "stop past the lease":
            return chance.uniform(2.0, 3.0) * LEASE
        case "database kill" | "database restart" | "database hang":
            return chance.uniform(0.0, 0.5) * LEASE
        case _:
            return chance.choice((0.2, 1.0, 2.5)) * LEASE


class Injector:
    """Does what the schedule says; a node that suffers already is left alone, and another one is taken."""

    def __init__(self, nodes: Sequence[Node], place: Place, orphans: Orphans, history: History) -> None:
        self._nodes, self._place, self._orphans, self._history = nodes, place, orphans, history
        self._suffering: set[Node] = set()
        self._database = asyncio.Lock()
        self.count = 0

    async def run(self, faults: Sequence[Fault]) -> None:
        """Return when all of it has happened and is healed."""
        began = self._history.now
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                await asyncio.sleep(max(0.0, began + fault.at - self._history.now))
                group.create_task(self._strike(fault))

    async def _strike(self, fault: Fault) -> None:
        if fault.what.startswith("database"):
            async with self._database:
                self._history.log(fault.what, f"for {fault.lasts:.2f} s")
                await self._strike_database(fault)
                self._history.log(fault.what, "is over")
        elif node := self._victim(fault.victim):
            self._history.log(fault.what, "of", node.name, node.pid, f"for {fault.lasts:.2f} s")
            self._suffering.add(node)
            try:
                await self._strike_node(fault, node)
            finally:
                self._suffering.discard(node)
            self._history.log(fault.what, "of", node.name, "is over")
        else:
            return
        self.count += 1

    def _victim(self, number: int) -> Node | None:
        order = [*self._nodes[number:], *self._nodes[:number]]
        return next((node for node in order if node.pid and node not in self._suffering), None)

    async def _strike_node(self, fault: Fault, node: Node) -> None:
        match fault.what:
            case "kill":
                pid = node.pid
                node.kill(fault.lasts)
                self._orphans.made(pid)
                await node.ready()
            case "stop" | "stop past the lease":
                node.stop()
                with self._orphans.while_away(node.pid):
                    await asyncio.sleep(fault.lasts)
                node.resume()
            case _:
                with self._orphans.while_away(node.pid):
                    await self._strike_network(fault, node)

    async def _strike_network(self, fault: Fault, node: Node) -> None:
        network = node.network
        assert network
        begins, _, ends = fault.what.partition(" and ")
        {
            "cut": network.cut,
            "refuse": network.refuse,
            "freeze": network.freeze,
            "deafen": network.deafen,
            "mute": network.mute,
            "half-close": network.half_close,
        }[begins]()
        await asyncio.sleep(fault.lasts)
        if ends == "cut":
            network.cut()
        network.heal()

    async def _strike_database(self, fault: Fault) -> None:
        assert self._place.server
        process = self._place.server.process
        if fault.what == "database hang":
            process.signal(SIGSTOP)
            await asyncio.sleep(fault.lasts)
            process.signal(SIGCONT)
            return
        await asyncio.to_thread(process.kill if fault.what == "database kill" else lambda: process.stop(SIGINT))
        await asyncio.sleep(fault.lasts)
        await asyncio.to_thread(process.start)
