"""Work in a process of its own: plain functions that keep the processor busy, or that must be killable."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from coatcheck.context import TaskContext
from coatcheck.errors import InvalidArgument, ToolFailed
from coatcheck.runners.thread import ThreadLink, run_in_thread
from coatcheck.sync_context import Stopped, SyncContext
from coatcheck.tool import Work

_spawn = multiprocessing.get_context("spawn")
_GRACE_SECONDS = 2.0
_CALL, _RETURN, _RAISE = "call", "return", "raise"


def in_process(function: Callable[..., Any]) -> Work:
    """Make work of a module-level function that takes a `SyncContext`, then the call's arguments by name.

    Raises:
        InvalidArgument: The function cannot be sent to another process.
    """
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"{getattr(function, '__name__', function)} cannot run in a process of its own ({error}); "
            "define it at the top level of a module."
        ) from error

    async def work(context: TaskContext, arguments: Mapping[str, Any]) -> Any:
        return await run_in_thread(context, lambda link: _drive(link, function, arguments))

    return work


def _drive(link: ThreadLink, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    ours, theirs = _spawn.Pipe()
    child = _spawn.Process(target=_child, args=(theirs, function, arguments), daemon=True)
    child.start()
    theirs.close()
    link.on_stop(lambda: _terminate(child))
    try:
        return _serve(ours, link)
    except EOFError:
        child.join()
        if link.is_stopped:
            raise Stopped from None
        raise ToolFailed(f"The tool's process ended without a result ({_how(child)})") from None
    finally:
        _end(child)


def _serve(pipe: Connection[Any, Any], link: ThreadLink) -> Any:
    """Carry the child's calls to the task until it returns or raises."""
    while True:
        verb, *said = pipe.recv()
        if verb == _RETURN:
            return said[0]
        if verb == _RAISE:
            raise said[0]
        method, args = said
        try:
            pipe.send((_RETURN, link.call(method, *args)))
        except Exception as error:
            pipe.send((_RAISE, error))


def _terminate(child: SpawnProcess) -> None:
    with suppress(ValueError):  # it has ended by itself
        child.terminate()


def _end(child: SpawnProcess) -> None:
    child.join(_GRACE_SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
    child.close()


def _how(child: SpawnProcess) -> str:
    code = child.exitcode or 0
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class _PipeLink:
    """Carries calls from the child to the thread that drives it. A child that is stopped is terminated instead."""

    is_stopped = False

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe = pipe

    def call(self, method: str, *args: Any) -> Any:
        self._pipe.send((_CALL, method, args))
        verb, value = self._pipe.recv()
        if verb == _RAISE:
            raise value
        return value


def _child(pipe: Connection[Any, Any], function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        outcome = (_RETURN, function(SyncContext(_PipeLink(pipe)), **arguments))
    except Exception as error:
        outcome = (_RAISE, error)
    try:
        pipe.send(outcome)
    except (pickle.PicklingError, AttributeError, TypeError):
        pipe.send((_RAISE, ToolFailed(f"The tool's outcome cannot leave its process: {outcome[1]!r}")))


def _end_with_parent() -> None:
    """Work that nobody can hear of any more must not go on, least of all beside its own replay."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
