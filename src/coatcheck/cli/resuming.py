"""Tasks that were left at any number of servers, collected together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from coatcheck.cli.destination import Destination
from coatcheck.cli.display import Display, shown
from coatcheck.cli.exits import Exit, exit_code
from coatcheck.cli.failures import as_json, cause, say
from coatcheck.cli.ledger import entries, where
from coatcheck.cli.narrowing import narrowed
from coatcheck.cli.options import MODES, Access
from coatcheck.cli.output import write_json, write_result
from coatcheck.cli.terminal import Terminal, open_terminal
from coatcheck.cli.visit import Visit, visit
from coatcheck.client import TaskHandle, ToolResult
from coatcheck.client.ledger import Entry
from coatcheck.errors import CoatcheckError


async def resume_all(access: Access, name: str | None, timeout: float | None, *, is_json: bool, is_quiet: bool) -> int:
    """Wait for every task that nobody waits for, at the server called `name` or at all.

    Returns the exit code that all failures share, or 1.
    """
    asked = narrowed([entry for entry in entries() if not entry.holder_alive], name, access)
    with open_terminal() as terminal:
        async with shown(terminal.console, is_quiet=is_quiet) as display, AsyncExitStack() as stack:
            collecting = Collecting(terminal, display, is_json=is_json)
            for target, mode in _places(asked.entries):
                await collecting.visit(stack, asked.destination_of(target), target, replace(access, mode=mode))
            return await collecting.collect(timeout)


class Collecting:
    def __init__(self, terminal: Terminal, display: Display, *, is_json: bool) -> None:
        self._terminal, self._display, self._is_json = terminal, display, is_json
        self._left: list[tuple[Visit, TaskHandle[ToolResult]]] = []
        self._codes: set[int] = set()

    async def visit(
        self, stack: AsyncExitStack, destination: Destination, target: Mapping[str, Any], access: Access
    ) -> None:
        """Take over what was left at a server. One that is not there does not keep us from the others."""
        try:
            here = await stack.enter_async_context(visit(destination, access, self._terminal, self._display))
            self._left += [(here, handle) for handle in await here.client.resume()]
        except CoatcheckError as error:
            self._failed(error, where(target))

    async def collect(self, timeout: float | None) -> int:
        """Wait for all of them, and print results as they come."""
        if self._left:
            handles = [handle for _, handle in self._left]
            await self._left[0][0].watch.minding(self._all(), handles, timeout)
        elif not self._codes and not self._is_json:
            say("There is nothing to come back for.", None)
        if len(self._codes) > 1:
            return Exit.FAILED
        return self._codes.pop() if self._codes else Exit.OK

    async def _all(self) -> None:
        await asyncio.gather(*(self._one(here, handle) for here, handle in self._left))

    async def _one(self, here: Visit, handle: TaskHandle[ToolResult]) -> None:
        tool = handle.tool or "task"
        try:
            result = await here.watch.result(handle, tool)
        except CoatcheckError as error:
            self._failed(error, f"{tool} {handle.id}", handle)
        else:
            with self._display.paused():
                if not self._is_json:
                    say(f"{tool} {handle.id}:", None)
                write_result(result, handle.id, handle.tool, is_json=self._is_json)

    def _failed(self, error: CoatcheckError, name: str, handle: TaskHandle[Any] | None = None) -> None:
        self._codes.add(exit_code(error))
        if self._is_json:
            about = {"id": handle.id, "tool": handle.tool} if handle else {"target": name}
            write_json(as_json(cause(error)) | about)
        with self._display.paused():
            say(f"{name}: {error}")


def _places(left: Sequence[Entry]) -> list[tuple[Mapping[str, Any], str]]:
    """Return the servers that have something for us, and the generation that they spoke."""
    found: dict[str, tuple[Mapping[str, Any], set[str]]] = {}
    for entry in left:
        place = found.setdefault(json.dumps(entry.target, sort_keys=True), (entry.target, set()))
        place[1].add(entry.protocol if entry.protocol in MODES else "auto")
    return [(target, modes.pop() if len(modes) == 1 else "auto") for target, modes in found.values()]
