"""An event loop that runs what is ready in an order drawn by lot, the same for the same seed, in a time of its own."""

from __future__ import annotations

import asyncio
import contextvars
import selectors
import sys
from asyncio import selector_events
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, cast

_LONGEST_SILENCE = 20
"""Real seconds without anything to do, after which everybody waits for everybody else."""
_MOMENT = 1e-3
_TURN = 1e-9
"""What a turn of the loop takes: next to nothing, but who waits for a time to pass must see it pass."""
_SOCKETS = selector_events.__file__, selector_events.__name__
_Ready = tuple[asyncio.Handle, Callable[..., object], tuple[Any, ...], contextvars.Context]


class SeededLoop(asyncio.SelectorEventLoop):
    """asyncio promises an order that no other scheduler keeps, so nothing of ours may depend on it.

    While nobody draws lots it is an ordinary loop, but for its time: that all but stands still as long as anything can
    be done, and then jumps to the next timer. So an hour's wait takes no time, and what is late is late for certain.

    What asyncio does about a socket it does in its own order, and first: every loop keeps that.
    """

    def __init__(self, *, jumps: bool = True) -> None:
        """`jumps=False` is for those who wait for other threads: their time is everybody's."""
        self._timeless = _Timeless() if jumps else None
        self._pool: list[_Ready] = []
        self._first: deque[_Ready] = deque()
        self._outside = contextvars.Context()
        self._chance: Random | None = None
        self._in_order = 0.0
        self.faults: list[str] = []
        """What went wrong where nobody was waiting for it."""
        super().__init__(self._timeless)
        self.set_exception_handler(self._note)

    def draw(self, chance: Random | None) -> None:
        """From now on, let these lots decide who is next; None: first come, first served."""
        self._chance = chance
        self._in_order = chance.choice((0.0, 0.5, 0.9)) if chance else 1.0

    def time(self) -> float:
        return self._timeless.now if self._timeless else super().time()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        line = self._first if _is_of_a_socket(callback) else self._pool
        line.append((handle, callback, args, context))
        super().call_soon(self._run_one, context=self._outside)
        return handle

    def _run_one(self) -> None:
        handle, callback, args, context = self._first.popleft() if self._first else self._draw_one()
        if not handle.cancelled():
            context.run(callback, *args)

    def _draw_one(self) -> _Ready:
        pool, chance = self._pool, self._chance
        is_drawn = chance is not None and len(pool) > 1 and chance.random() >= self._in_order
        return pool.pop(chance.randrange(len(pool)) if chance is not None and is_drawn else 0)

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.faults.append(f"{context['message']}: {context.get('exception')!r}, {context.get('future')!r}")


def _is_of_a_socket(callback: Callable[..., object]) -> bool:
    file, module = _SOCKETS
    while isinstance(callback, partial):
        callback = callback.func
    is_theirs = getattr(callback, "__module__", None) == module
    return is_theirs or sys._getframe(2).f_code.co_filename == file  # pyright: ignore[reportPrivateUsage]


class _Timeless(selectors.DefaultSelector):
    """Where a loop would sleep, its clock is put forward instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            found = super().select(_LONGEST_SILENCE)
            assert found, "everybody waits for somebody else"
            return found
        found = super().select(0)
        self.now += _TURN if found else max(timeout, _TURN)
        return found


def the_loop() -> SeededLoop:
    return cast("SeededLoop", asyncio.get_running_loop())


async def turns(chance: Random, most: int = 20) -> None:
    """Let others go first, a few times or many."""
    for _ in range(chance.randrange(chance.choice((1, 4, most)))):
        await asyncio.sleep(0)


async def rest() -> None:
    """Return once nobody has anything left to do but to wait. Certain, in a loop whose time waits for that."""
    await asyncio.sleep(_MOMENT)
