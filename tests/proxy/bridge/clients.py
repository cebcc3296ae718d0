"""The clients of the bridge, of every generation, with one way to speak to all of them."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import mcp
import mcp_types as types
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from coatcheck import Client
from coatcheck.client import TaskHandle, TasksExtension, ToolResult
from coatcheck.dialects.words import STATE_UNKNOWN
from coatcheck.errors import CannotConnect, Interrupted, ServerError, TaskCancelled, TaskLost, ToolFailed
from tests.client_faults.gate import PATIENCE

Json = dict[str, Any]
_UNKNOWN = re.compile("before you call it again")
Target = str | Json
"""The URL of a proxy, or how to start one."""


@dataclass(frozen=True)
class Said:
    """How a call ended: with a result, or with an error of the protocol."""

    result: types.CallToolResult | None = None
    code: int | None = None
    message: str = ""
    data: Any = None

    @property
    def is_error(self) -> bool:
        return self.result is None or self.result.is_error is True

    @property
    def is_unknown(self) -> bool:
        """Whether it says that nobody can tell what has become of the call."""
        is_said = self.code is None or (self.code == STATE_UNKNOWN and self.data.get("stateUnknown") is True)
        return self.is_error and is_said and bool(_UNKNOWN.search(self.text))

    @property
    def text(self) -> str:
        """What it says, in whatever way it says it."""
        content = self.result.content if self.result else ()
        return self.message or "\n".join(block.text for block in content if isinstance(block, types.TextContent))


class Person:
    """Who is asked by one client, answers each question with a word of its own, and remembers them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []
        self.thinks: asyncio.Event | None = None
        """Set when the answer may be given; None: at once."""
        self.was_asked = asyncio.Event()

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        await self._hear(params.message)
        return types.ElicitResult(action="accept", content={"value": f"{self.name} {len(self.asked)}"})

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content = params.messages[0].content
        assert isinstance(content, types.TextContent)
        await self._hear(content.text)
        said = types.TextContent(type="text", text=self.name)
        return types.CreateMessageResult(role="assistant", model="none", content=said)

    async def list_roots(self, _: Any) -> types.ListRootsResult:
        await self._hear("roots")
        root = types.Root.model_validate({"uri": f"file:///{self.name}"})
        return types.ListRootsResult(roots=[root])

    @property
    def callbacks(self) -> Json:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.list_roots,
        }

    async def _hear(self, question: str) -> None:
        self.asked.append(question)
        self.was_asked.set()
        if self.thinks:
            await self.thinks.wait()


class Caller(ABC):
    """A client that is connected."""

    last_task: str | None = None
    """What the last call became, if it was not answered with its result."""

    @abstractmethod
    async def call(self, tool: str, arguments: Json) -> Said:
        """Call a tool and return how that ended, by whatever way there is."""

    @abstractmethod
    async def start(self, tool: str, arguments: Json) -> str:
        """Call a tool that takes long; return the id of what it has become."""

    @abstractmethod
    async def collect(self, task_id: str) -> Said:
        """Wait for the end of what was started, here or in an earlier process."""

    @abstractmethod
    async def cancel(self, task_id: str) -> None: ...


class _Ours(Caller):
    def __init__(self, client: Client) -> None:
        self._client = client
        self._handles: dict[str, TaskHandle[ToolResult]] = {}

    async def call(self, tool: str, arguments: Json) -> Said:
        return await _said(self._called(tool, arguments))

    async def start(self, tool: str, arguments: Json) -> str:
        handle = await self._client.start(tool, arguments, raise_on_error=False)
        assert handle.is_task
        self._handles[handle.id] = handle
        return handle.id

    async def collect(self, task_id: str) -> Said:
        handle = self._handles.get(task_id) or self._client.handle(task_id)
        return await _said(handle.result(PATIENCE))

    async def cancel(self, task_id: str) -> None:
        await self._handles[task_id].cancel()

    async def _called(self, tool: str, arguments: Json) -> ToolResult:
        handle = await self._client.start(tool, arguments, raise_on_error=False)
        self.last_task = handle.id if handle.is_task else None
        return await handle.result(PATIENCE)


class _Extension(TasksExtension):
    """Says which tasks it was given."""

    def __init__(self, *, cancels: bool) -> None:
        super().__init__(cancel_on_abandon=cancels)
        self.given: asyncio.Queue[str] = asyncio.Queue()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [replace(claim, resolve=partial(self._noted, claim)) for claim in super().claims()]

    async def _noted(self, claim: ResultClaim[Any], created: Any, context: ClaimContext) -> types.CallToolResult:
        self.given.put_nowait(created.model_dump()["taskId"])
        return await claim.resolve(created, context)


class _WithExtension(Caller):
    """The SDK's own client with tasks of 2026-07-28; it names no keys, so its calls are made before their rows."""

    def __init__(self, client: mcp.Client, given: asyncio.Queue[str]) -> None:
        self._client, self._given = client, given
        self._calls: dict[str, asyncio.Task[types.CallToolResult]] = {}

    async def call(self, tool: str, arguments: Json) -> Said:
        return await _said(self._client.call_tool(tool, arguments))

    async def start(self, tool: str, arguments: Json) -> str:
        calling = asyncio.create_task(self._client.call_tool(tool, arguments))
        becoming = asyncio.create_task(self._given.get())
        await asyncio.wait((calling, becoming), return_when=asyncio.FIRST_COMPLETED)
        assert becoming.done(), calling
        self._calls[becoming.result()] = calling
        return becoming.result()

    async def collect(self, task_id: str) -> Said:
        return await _said(self._calls[task_id])

    async def cancel(self, task_id: str) -> None:
        self._calls[task_id].cancel()
        await asyncio.wait((self._calls[task_id],))

    async def leave(self) -> None:
        for calling in self._calls.values():
            calling.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)


class _Without(Caller):
    """The SDK's own client without tasks: it gets tickets, and answers what stands on them as a model would."""

    def __init__(self, client: mcp.Client, person: Person | None) -> None:
        self._client, self._person = client, person

    async def call(self, tool: str, arguments: Json) -> Said:
        said = await _said(self._client.call_tool(tool, arguments))
        return await self.collect(ticket["taskId"]) if (ticket := _ticket(said)) else said

    async def start(self, tool: str, arguments: Json) -> str:
        said = await _said(self._client.call_tool(tool, arguments))
        ticket = _ticket(said)
        assert ticket, said
        return ticket["taskId"]

    async def collect(self, task_id: str) -> Said:
        async with asyncio.timeout(PATIENCE):
            while ticket := _ticket(said := await _said(self._client.call_tool("wait_task", {"task_id": task_id}))):
                for question in ticket.get("questions", ()):
                    await self._answer(task_id, question)
        return said

    async def cancel(self, task_id: str) -> None:
        said = await _said(self._client.call_tool("cancel_task", {"task_id": task_id}))
        assert not said.is_error, said

    async def _answer(self, task_id: str, question: Json) -> None:
        assert self._person, question
        params = types.ElicitRequestFormParams.model_validate(question["params"])
        answer = await self._person.elicit(None, params)
        arguments = {"task_id": task_id, "question": question["question"], "content": answer.content}
        said = await _said(self._client.call_tool("answer_task", arguments))
        assert not said.is_error, said


Kind = Literal["none-2025", "none-2026", "2025", "2026", "2026-sdk"]
KINDS: tuple[Kind, ...] = ("none-2025", "none-2026", "2025", "2026", "2026-sdk")
"""Without tasks, in either generation; with tasks of one; with tasks, by the SDK's own client."""
CODED: tuple[Kind, ...] = ("2025", "2026", "2026-sdk")
"""Those that are told the code of an error also if it comes late: what collects tickets is a tool."""
_MODES: Mapping[Kind, Any] = {"none-2025": "legacy", "none-2026": "2026-07-28", "2025": "2025-11-25"}


@asynccontextmanager
async def connected(
    kind: Kind, target: Target, person: Person | None = None, *, cancels: bool = True
) -> AsyncGenerator[Caller]:
    """Connect a client; without a person it cannot be asked anything.

    `cancels`: what the SDK's own client with tasks does with calls that are given up, or left under way in the end.
    """
    callbacks = person.callbacks if person else {}
    mode: Any = _MODES.get(kind, "2026-07-28")
    async with asyncio.timeout(2 * PATIENCE):
        if kind in ("2025", "2026"):
            async with Client(target, mode=mode, ledger=False, patience=PATIENCE, **callbacks) as client:
                yield _Ours(client)
            return
        extension = _Extension(cancels=cancels)
        extensions = [extension] if kind == "2026-sdk" else []
        server = target if isinstance(target, str) else StdioServerParameters(**target)
        async with mcp.Client(server, mode=mode, extensions=extensions, **callbacks) as client:
            if not extensions:
                yield _Without(client, person)
                return
            caller = _WithExtension(client, extension.given)
            yield caller
            await caller.leave()


async def _said(call: Any) -> Said:
    try:
        return Said(await call)
    except MCPError as error:
        return Said(code=error.code, message=error.message, data=error.error.data)
    except (ToolFailed, ServerError) as error:
        return Said(code=error.code, message=error.message, data=error.data)
    except (TaskLost, TaskCancelled, Interrupted, CannotConnect) as error:
        return Said(message=str(error))


def _ticket(said: Said) -> Json | None:
    """Return what stands on a ticket, if it is one."""
    content = cast("Json | None", said.result.structured_content) if said.result else None
    return content["task"] if content and content.keys() == {"task"} else None
