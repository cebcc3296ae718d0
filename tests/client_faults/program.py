"""The client program: hands a call in, or collects what an earlier run of it left, and is asked by a person's side."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from coatcheck import Client
from coatcheck.client import TaskHandle, ToolResult
from coatcheck.errors import CannotConnect
from tests.client_faults.gate import PATIENCE, visit

Mode = Literal["auto", "2026-07-28", "2025-11-25"]
Target = str | dict[str, Any]
_ATTEMPTS = 20
STARTED, ASKED, ARRIVED = "started", "asked", "arrived"


@dataclass(frozen=True)
class Errand:
    """What one run of the program is to do."""

    target: Target
    mode: Mode
    folder: Path
    gate: int
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    push: bool = True
    waits: bool = False
    """Whether to call the tool and wait for its result, or to hold a ticket for it."""
    resumes: bool = False

    @property
    def notebook(self) -> Notebook:
        return Notebook(self.folder / "notebook.txt")

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    def again(self) -> Errand:
        """Return the errand of the run after one that has died."""
        return replace(self, resumes=True)


class Notebook:
    """What a person was asked, answered and was told, over all runs of the program: lines in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, *words: str) -> None:
        with self._path.open("a") as file:
            file.write("\t".join(words) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self, word: str) -> list[str]:
        """Return what stands behind `word`, line by line."""
        if not self._path.exists():
            return []
        lines = [line.split("\t", 1) for line in self._path.read_text().splitlines()]
        return [rest for said, rest in lines if said == word]


class Person:
    """Whoever answers, each question with a word of its own."""

    def __init__(self, errand: Errand) -> None:
        self._notebook, self._gate = errand.notebook, errand.gate

    async def answer(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self._notebook.write("asked", params.message)
        await visit(self._gate, ASKED)
        value = f"answer {len(self._notebook.lines('answered')) + 1}"
        self._notebook.write("answered", params.message)
        return ElicitResult(action="accept", content={"value": value})


async def run(errand: Errand) -> None:
    """Do an errand to its end, and write down what came of it."""
    async with AsyncExitStack() as stack:
        client = await _connected(errand, stack)
        if errand.waits:
            _deliver(errand, await client.call(errand.tool, errand.arguments))
            return
        handles = await client.resume() if errand.resumes else [await client.start(errand.tool, errand.arguments)]
        await visit(errand.gate, STARTED)
        for handle in handles:
            await _collect(errand, handle)


async def _connected(errand: Errand, stack: AsyncExitStack) -> Client:
    """Connect. If that fails nothing has begun, and whoever wants to tries again."""
    for attempts_left in reversed(range(_ATTEMPTS)):
        client = Client(
            errand.target,
            elicitation_callback=Person(errand).answer,
            mode=errand.mode,
            ledger=errand.ledger,
            push=errand.push,
            patience=PATIENCE,
        )
        try:
            return await stack.enter_async_context(client)
        except CannotConnect:
            if not attempts_left:
                raise
    raise AssertionError("unreachable")


async def _collect(errand: Errand, handle: TaskHandle[ToolResult]) -> None:
    async for snapshot in handle.events():
        if snapshot.is_terminal:
            await visit(errand.gate, ARRIVED)
    _deliver(errand, await handle.result())


def _deliver(errand: Errand, result: ToolResult) -> None:
    errand.notebook.write("delivered", json.dumps(result.data))


def main(errand: Errand) -> None:
    asyncio.run(run(errand))
