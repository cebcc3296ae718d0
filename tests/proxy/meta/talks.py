"""A client of the meta tools, and their answers taken apart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

from starlette.applications import Starlette

from coatcheck.proxy.gateway import Gateway
from coatcheck.proxy.settings import ProxySettings
from tests.matrix.clients import Client
from tests.matrix.peers import PATIENCE, Pending
from tests.proxy.meta.upstreams import Upstream
from tests.v2025.wire import ASKABLE, VERSION, OverHTTP, Place, Talk, outcome, served

Json = dict[str, Any]
EVENTS, PENDING = "events_since_last_response", "pending_client_action"


class Answer:
    """What a meta tool returned."""

    def __init__(self, raw: Json) -> None:
        self.raw = raw
        self.blocks: list[Any] = [_read(block["text"]) if "text" in block else block for block in raw["content"]]

    @property
    def own(self) -> list[Any]:
        """The blocks that are the tool's own, and not what every answer carries."""
        return [block for block in self.blocks if not _is_carried(block)]

    @property
    def said(self) -> Any:
        """The tool's own answer, if it is one block."""
        (block,) = self.own
        return block

    @property
    def error(self) -> Json:
        assert self.raw["isError"] is True, self.raw
        return self.said["error"]

    @property
    def events(self) -> list[Json]:
        """The events it carries; those of `await_activity` in the order in which they happened."""
        carried = [block[EVENTS] for block in self.blocks if _is_carried(block) and EVENTS in block]
        awaited = [event for block in self._awaited() for group in block["events"] for event in group["events"]]
        return [*(event for events in carried for event in events), *sorted(awaited, key=lambda event: event["id"])]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def pending(self) -> Json | None:
        """The questions that every answer carries."""
        found = [block[PENDING] for block in self.blocks if _is_carried(block) and PENDING in block]
        return found[0] if found else None

    @property
    def task_id(self) -> str:
        """The task that a call has become."""
        assert len(self.own) == 2, self.raw
        return self.own[1]["proxy_task"]["task_id"]

    def _awaited(self) -> list[Json]:
        return [block for block in self.blocks if isinstance(block, dict) and "triggers" in block]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_carried(block: Any) -> bool:
    return isinstance(block, dict) and list(cast("Json", block)) in ([EVENTS], [PENDING])


class Meta:
    """A client that calls meta tools. All events it is told of are kept, in their order."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.told: list[Json] = []

    async def use(self, tool: str, /, **arguments: Any) -> Answer:
        return await self.answer(self.begin(tool, **arguments))

    def begin(self, tool: str, /, **arguments: Any) -> Pending:
        """Call a tool, and do not wait for its answer."""
        return self.talk.begin("tools/call", {"name": tool, "arguments": arguments})

    async def answer(self, pending: Pending) -> Answer:
        answer = Answer(outcome(await pending.answer()))
        self.told += answer.events
        return answer

    async def execute(self, tool: str, /, *, server: str = "one", timeout_ms: int | None = None, **args: Any) -> Answer:
        more = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
        return await self.use("execute_tool", server=server, tool=tool, args=args, **more)

    async def task(self, tool: str, /, *, server: str = "one", **args: Any) -> str:
        """Make a task of a call, at once, and return its id."""
        return (await self.execute(tool, server=server, timeout_ms=0, **args)).task_id

    async def until(self, kind: str, **data: Any) -> Json:
        """Wait for an event of a type, and return it; those told before count, too."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in self.told:
                    if event["type"] == kind and data.items() <= {**event, **event["data"]}.items():
                        return event
                await self.use("await_activity", timeout_ms=5_000)

    async def question(self, kind: str = "elicitation_request", **data: Any) -> str:
        """Wait until a server asks something, and return the id of the request."""
        return (await self.until(kind, **data))["data"]["requestId"]

    async def settled(self, task_id: str) -> Json:
        """Wait until a task has ended, and return it."""
        async with asyncio.timeout(PATIENCE):
            while (task := (await self.use("get_task", task_id=task_id)).said["task"])["status"] == "working":
                await self.use("get_task_result", task_id=task_id, timeout_ms=5_000)
        return task

    async def caught_up(self) -> None:
        """Hear of all that has happened so far."""
        await self.use("list_timers")


class Returning(OverHTTP):
    """A client that goes on with a session, on new connections."""

    def __init__(self, app: Starlette, session: str) -> None:
        super().__init__(Client("test", VERSION, ASKABLE), app, stands=False)
        self._session = {"mcp-session-id": session}


@asynccontextmanager
async def proxying(
    upstreams: Iterable[Upstream], *, store: str = "memory://", **settings: Any
) -> AsyncGenerator[Place]:
    """Run a proxy with the meta tools in front of some servers."""
    entries = {upstream.name: upstream.entry for upstream in upstreams}
    gateway = Gateway(entries, store=store, settings=ProxySettings(has_meta_tools=True, **settings))
    async with served(gateway) as place:
        yield place
