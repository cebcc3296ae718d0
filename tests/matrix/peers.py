"""A client that keeps every message as it was: what it was told, on which stream, and in what order."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from tests.matrix.clients import Client, Json

PATIENCE = 20
"""Seconds to wait for what should come at once."""


@dataclass(frozen=True)
class Heard:
    """A notification or a request of the server."""

    message: Json
    stream: int | None
    """The request on whose own stream it came; None: the one stream there is, or the standing one."""

    @property
    def method(self) -> str:
        return self.message["method"]

    @property
    def params(self) -> Json:
        params: Json = self.message.get("params", {})
        # The SDK before 2.3 puts an empty one on all that has none.
        return {name: value for name, value in params.items() if name != "_meta" or value}


class Pending:
    """A request that may be answered."""

    def __init__(self, peer: Peer, message: Json) -> None:
        self._peer, self.message, self.id = peer, message, int(message["id"])
        self.heard_before: list[Heard] = []
        """What had come when the answer came."""
        self._answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

    @property
    def is_answered(self) -> bool:
        return self._answer.done()

    def settle(self, answer: Json) -> None:
        assert not self._answer.done(), f"a second answer: {answer}, after {self._answer.result()}"
        self.heard_before = list(self._peer.heard)
        self._answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
            self._answer.exception()  # not everyone waits for it

    async def answer(self) -> Json:
        """Return the message that answers it, a result or an error."""
        async with asyncio.timeout(PATIENCE):
            return await asyncio.shield(self._answer)

    async def cancel(self) -> None:
        """Say that the answer is not wanted any more, as the transport has it."""
        await self._peer.cancel(self)


class Peer(ABC):
    def __init__(self, client: Client) -> None:
        self.client = client
        self.heard: list[Heard] = []
        self.greeting: Json = {}
        """The result of the handshake, if there was one."""
        self._news = asyncio.Event()
        self._pending: dict[int, Pending] = {}
        self._last_id = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._faults: list[BaseException] = []

    async def greet(self) -> None:
        """Do what the client's version has to be done first."""
        if not self.client.is_modern:
            answer = await self.request("initialize", self.client.handshake())
            self.greeting = answer["result"]
            assert self.greeting["protocolVersion"] == self.client.version, answer
            await self.notify("notifications/initialized")

    def begin(self, method: str, params: Mapping[str, Any]) -> Pending:
        """Send a request, and do not wait for its answer."""
        self._last_id += 1
        pending = Pending(self, self.client.request(self._last_id, method, params))
        self._pending[pending.id] = pending
        self.spawn(self.send(pending.message))
        return pending

    async def request(self, method: str, params: Mapping[str, Any]) -> Json:
        """Send a request and return the message that answers it."""
        return await self.begin(method, params).answer()

    async def call(self, tool: str, /, **arguments: Any) -> Json:
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})})

    async def until(self, is_it: Callable[[Heard], bool]) -> Heard:
        """Return the first that is it, of all that was heard or will be."""
        async with asyncio.timeout(PATIENCE):
            while not self._faults:
                for heard in self.heard:
                    if is_it(heard):
                        return heard
                self._news.clear()
                await self._news.wait()
        raise self._faults[0]

    async def cancel(self, pending: Pending) -> None:
        await self.notify("notifications/cancelled", {"requestId": pending.id})

    async def close(self) -> None:
        """Leave. Raises what went wrong on the way."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._under_way, return_exceptions=True)
        if self._faults:
            raise BaseExceptionGroup("on the wire", self._faults)

    @abstractmethod
    async def send(self, message: Json) -> None:
        """Put a message on the wire."""

    def receive(self, message: Json, stream: int | None = None) -> None:
        """Take a message from the wire."""
        assert message.pop("jsonrpc") == "2.0", message
        if "method" in message:
            self.heard.append(Heard(message, stream))
            self._news.set()
            if "id" in message:
                self.spawn(self.send(self.client.answer(message)))
        else:
            self._pending[message.pop("id")].settle(message)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this meanwhile, and be done with it before leaving."""
        task = self.start(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do this meanwhile; if it fails, so does everything that waits."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._note_fault)
        return task

    def _note_fault(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._faults.append(error)
            self._news.set()
            for pending in self._pending.values():
                pending.fail(error)
