"""Work in a thread of its own: plain functions. A thread cannot be killed, so it is told, and left alone.

Each run has a new thread, not one of a pool: one that will not end must keep no other work waiting, nor the process.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from coatcheck.context import TaskContext
from coatcheck.payload import Payload, text
from coatcheck.sync_context import Stopped, SyncContext
from coatcheck.tool import Work


def in_thread(function: Callable[..., Any]) -> Work:
    """Make work of a function that takes a `SyncContext`, then the call's arguments by name."""

    async def work(context: TaskContext, arguments: Mapping[str, Any]) -> Any:
        return await run_in_thread(context, lambda link: function(SyncContext(link), **arguments))

    return work


async def run_in_thread(context: TaskContext, function: Callable[[ThreadLink], Any]) -> Any:
    loop = asyncio.get_running_loop()
    link, outcome = ThreadLink(loop, context), loop.create_future()

    def run() -> None:
        try:
            result, error = function(link), None
        except StopIteration as raised:  # no future can carry this one
            result, error = None, RuntimeError(f"StopIteration: {text(raised)}")
        except BaseException as raised:
            result, error = None, raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, outcome, result, error)

    threading.Thread(target=run, name=f"coatcheck-{context.task.call.tool}", daemon=True).start()
    try:
        return await outcome
    finally:
        link.stop()


class ThreadLink:
    """Carries calls from a thread to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: TaskContext) -> None:
        self._loop, self._context = loop, context
        self._calls: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._on_stop: list[Callable[[], None]] = []
        self.is_stopped = False

    def call(self, method: str, *args: Any) -> Any:
        with self._lock:
            if self.is_stopped:
                raise Stopped
            call = asyncio.run_coroutine_threadsafe(self._dispatch(method, args), self._loop)
            self._calls.add(call)
        try:
            return call.result()
        except CancelledError:
            raise Stopped from None
        finally:
            self._calls.discard(call)

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the work should end, or now if it should already."""
        with self._lock:
            if not self.is_stopped:
                self._on_stop.append(callback)
                return
        callback()

    def stop(self) -> None:
        with self._lock:
            self.is_stopped = True
            calls, callbacks = list(self._calls), list(self._on_stop)
        for call in calls:
            call.cancel()
        for callback in callbacks:
            callback()

    async def _dispatch(self, method: str, args: tuple[Any, ...]) -> Any:
        args = tuple(Payload(arg) if isinstance(arg, bytes) else arg for arg in args)
        answer = getattr(self._context, method)(*args)
        if inspect.isawaitable(answer):
            answer = await answer
        return bytes(answer) if isinstance(answer, Payload) else answer


def _settle(outcome: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if outcome.done():
        return
    if isinstance(error, Stopped):
        outcome.cancel()
    elif error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(result)
