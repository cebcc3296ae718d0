"""The context for work that is not on the event loop: the same verbs, blocking, and a token to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

from coatcheck.payload import Payload, decode, encode

Value = TypeVar("Value")


class Stopped(BaseException):
    """Raised inside work whose task was taken away, like KeyboardInterrupt: let it through."""


class Link(Protocol):
    """How work elsewhere reaches its task's `TaskContext`."""

    @property
    def is_stopped(self) -> bool: ...

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the context and return what it returned. Raises Stopped once the task was taken away."""
        ...


class SyncContext:
    """What running work off the loop may do to its own task."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def is_stopped(self) -> bool:
        """True once the task was cancelled or taken away: whatever the work returns then is not used."""
        return self._link.is_stopped

    def check(self) -> None:
        """Raise Stopped if the work should end. Call it now and then in long loops."""
        if self._link.is_stopped:
            raise Stopped

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self._link.call("progress", done, total, message)

    def note(self, message: str) -> None:
        self._link.call("note", message)

    def output(self, chunk: Any) -> None:
        self._link.call("output", chunk)

    def elicit(self, message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return self._link.call("elicit", message, schema)

    def ask(self, method: str, params: Mapping[str, Any], answer_schema: Mapping[str, Any] | None = None) -> Any:
        return self._link.call("ask", method, params, answer_schema)

    def step(self, name: str, function: Callable[..., Value], *args: Any, **kwargs: Any) -> Value:
        """Run `function` once, however often the work is run again: later runs get the recorded value."""
        key: str = self._link.call("step_key", name)
        recorded: bytes | None = self._link.call("recall", key)
        if recorded is None:
            recorded = bytes(encode(function(*args, **kwargs)))
            self._link.call("record", key, recorded)
        return cast("Value", decode(Payload(recorded)))
