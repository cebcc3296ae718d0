"""Work in a process of its own: plain functions that keep the processor busy, or that must be killable."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import resource_tracker
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
_LOOK_SECONDS = 0.02
_FOR_GROUPS = (signal.SIGINT, signal.SIGTERM)
"""What a terminal, or who stops a service, tells all processes of a worker: it is for the worker to pass on."""
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
    # A process has these from the thread that starts it, and is deaf to them until it has left the worker's group.
    resource_tracker.ensure_running()  # or it would be started below, and give the thread its ears back
    signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_GROUPS)
    ours, theirs = _spawn.Pipe()
    child = _spawn.Process(target=_child, args=(theirs, function, arguments), daemon=True)
    child.start()
    theirs.close()
    link.on_stop(lambda: _stop(child, ours))
    try:
        return _serve(ours, link)
    except EOFError:
        if link.is_stopped:
            raise Stopped from None
        child.join()
        raise ToolFailed(f"The tool's process ended without a result ({_how(child)})") from None
    finally:
        if link.is_stopped:
            _end_group(child)
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


def _stop(child: SpawnProcess, pipe: Connection[Any, Any]) -> None:
    """Tell the child and all that it has started to end, and listen no longer: they may not, and keep the pipe open."""
    with suppress(ValueError):  # it has ended by itself
        pid = child.pid
        assert pid
        try:
            os.killpg(pid, signal.SIGTERM)
        except ProcessLookupError:
            child.kill()  # it has yet to begin, so it is deaf, and has nothing to clean up
        with suppress(OSError), socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.shutdown(socket.SHUT_RD)


def _end_group(child: SpawnProcess) -> None:
    """What is left of work that was stopped must not go on without it, least of all beside its own replay."""
    pid, deadline = child.pid, time.monotonic() + _GRACE_SECONDS
    assert pid
    child.join(_GRACE_SECONDS)
    with suppress(ProcessLookupError, PermissionError):  # nobody is left, or nobody of ours
        while time.monotonic() < deadline:
            os.killpg(pid, 0)
            time.sleep(_LOOK_SECONDS)
        os.killpg(pid, signal.SIGKILL)


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
    _leave_group()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        outcome = (_RETURN, function(SyncContext(_PipeLink(pipe)), **arguments))
    except Exception as error:
        outcome = (_RAISE, error)
    try:
        pipe.send(outcome)
    except (pickle.PicklingError, AttributeError, TypeError):
        pipe.send((_RAISE, ToolFailed(f"The tool's outcome cannot leave its process: {outcome[1]!r}")))


def _leave_group() -> None:
    """Begin a group of its own, which is that of what the tool starts, and forget what was told to the worker's."""
    os.setsid()
    while told := signal.sigpending().intersection(_FOR_GROUPS):
        signal.sigwait(told)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FOR_GROUPS)


def _end_with_parent() -> None:
    """Work that nobody can hear of any more must not go on, least of all beside its own replay."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)
