"""Who is offered the tools that take tickets: clients without tasks, where there are tasks to be had."""

from __future__ import annotations

import asyncio
from typing import Any

import jsonschema
import pytest
from mcp.server.mcpserver import MCPServer

from coatcheck.server import Tasks, TaskServer
from tests.requirements.marks import requirement
from tests.taskless.tickets import PROMPTLY, TOOLS, a_bench, a_ticket
from tests.v2025.bench import Bench
from tests.v2025.wire import ASKABLE, NEW, OLD, OLDER, VERSION, WITH_TASKS, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio

WITH: dict[str, Any] = {**ASKABLE, "tasks": {}}


@pytest.fixture
def bench() -> Bench:
    return a_bench("add", "wait", "plain", task=PROMPTLY)


async def offered(caller: Talk) -> set[str]:
    return set(await caller.tools()) & TOOLS


@requirement("X-12")
@pytest.mark.parametrize("version", ["2024-11-05", OLDER, OLD, VERSION, NEW])
async def test_a_client_without_tasks_is_offered_tools_in_their_place(
    bench: Bench, transport: Transport, version: str
) -> None:
    async with served(bench.server, transport) as place:
        assert await offered(await place.connect(transport, version=version)) == TOOLS


@requirement("X-12")
async def test_a_client_of_the_newer_generation_with_tasks_is_not(bench: Bench, transport: Transport) -> None:
    async with served(bench.server, transport) as place:
        assert await offered(await place.connect(transport, version=NEW, capabilities=WITH_TASKS)) == set()


@requirement("X-12")
async def test_a_client_of_the_older_generation_that_declared_tasks_is_not(bench: Bench, transport: Transport) -> None:
    async with served(bench.server, transport) as place:
        assert await offered(await place.connect(transport, capabilities=WITH)) == set()


@requirement("X-12")
async def test_a_client_of_the_older_generation_that_has_used_tasks_is_not_any_more(
    bench: Bench, transport: Transport
) -> None:
    async with served(bench.server, transport) as place:
        caller, other = await place.connect(transport), await place.connect(transport)
        assert await offered(caller) == TOOLS
        await caller.hand_in("add", a=1)
        assert await offered(caller) == set()
        assert await offered(other) == TOOLS, "what one client does is not held against another"


@requirement("X-12")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"])
async def test_looking_for_a_task_is_using_tasks(bench: Bench, method: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        await caller.request(method, {"taskId": "none"})
        assert await offered(caller) == set()


@requirement("X-12")
@pytest.mark.parametrize("version", [OLDER, OLD])
async def test_to_declare_what_a_version_does_not_have_changes_nothing(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        assert await offered(await place.memory(version, WITH)) == TOOLS


@requirement("X-12")
async def test_a_client_with_tasks_sees_schemas_as_they_are(bench: Bench) -> None:
    async with served(bench.server) as place:
        clients = [await place.memory(VERSION, WITH), await place.memory(NEW, WITH_TASKS)]
        for caller in clients:
            assert "anyOf" not in (await caller.tools())["add"]["outputSchema"]


@requirement("X-12", "F-007")
async def test_where_no_tool_may_be_a_task_nothing_is_offered(version: str) -> None:
    async with served(a_bench("plain").server) as place:
        tools = await (await place.memory(version)).tools()
    assert set(tools) == {"plain"}


@requirement("X-12")
async def test_an_author_may_offer_nothing(version: str) -> None:
    bench = a_bench("add", "wait", fallback_tools=False, task=PROMPTLY)
    async with served(bench.server) as place:
        caller = await place.memory(version)
        assert set(await caller.tools()) == {"add", "wait"}
        unknown = await caller.request("tools/call", {"name": "nowhere", "arguments": {}})
        hidden = await caller.request("tools/call", {"name": "get_task", "arguments": {}})
        assert str(hidden) == str(unknown).replace("nowhere", "get_task")
        assert text_of(await caller.use("add", a=1)) == "2"


@requirement("X-12")
async def test_where_nothing_is_offered_no_ticket_is_given_that_needs_it(version: str) -> None:
    bench = a_bench("add", "wait", fallback_tools=False, task=PROMPTLY, heartbeat=0.01)
    async with served(bench.server) as place:
        caller = await place.memory(version)
        call = caller.begin("tools/call", {"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}})
        answer = asyncio.create_task(call.answer())
        beats = asyncio.create_task(caller.until(lambda _: len(caller.heard) > 5))
        await asyncio.wait((answer, beats), return_when=asyncio.FIRST_COMPLETED)
        beats.cancel()
        bench.go.set()
        assert "wait_task" not in text_of((await answer)["result"])


@requirement("X-12", "X-11")
@pytest.mark.parametrize("capabilities", [ASKABLE, WITH], ids=["used", "declared"])
async def test_a_client_with_tasks_that_asks_for_none_is_given_nothing_it_cannot_understand(
    bench: Bench, capabilities: dict[str, Any]
) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(VERSION, capabilities)
        await caller.hand_in("add", a=1)
        tools = await caller.tools()
        call = caller.begin("tools/call", {"name": "wait", "arguments": {}})
        await caller.ask("ping")
        bench.go.set()
        result = (await call.answer())["result"]
        jsonschema.validate(result["structuredContent"], tools["wait"]["outputSchema"])
        assert "task" not in result["structuredContent"]


@requirement("X-12")
async def test_an_authors_own_tool_comes_first(version: str) -> None:
    bench = a_bench("add", "wait", task=PROMPTLY)

    @bench.server.tool(task=False)
    async def get_task(number: int) -> str:
        return f"my task {number}"

    async with served(bench.server) as place:
        caller = await place.memory(version)
        tools = await caller.tools()
        assert set(tools) >= TOOLS
        assert "number" in tools["get_task"]["inputSchema"]["properties"]
        assert text_of(await caller.use("get_task", number=7)) == "my task 7"
        task_id = await a_ticket(caller, "wait")
        bench.go.set()
        assert text_of(await caller.use("wait_task", task_id=task_id)) == "waited"


@requirement("X-12")
async def test_an_authors_own_tool_is_shown_to_clients_with_tasks_too() -> None:
    bench = a_bench("add")

    @bench.server.tool(task=False)
    async def get_task(number: int) -> str:
        return f"my task {number}"

    async with served(bench.server) as place:
        caller = await place.memory(NEW, WITH_TASKS)
        assert await offered(caller) == {"get_task"}


@requirement("X-12")
async def test_the_tools_that_take_tickets_are_never_tasks_themselves() -> None:
    server = TaskServer("test", store="memory://", task="required")

    @server.tool()
    async def slow() -> None: ...

    async with served(server) as place:
        caller = await place.memory()
        tools = await caller.tools()
        assert [name for name in TOOLS if "execution" in tools[name]] == []
        assert [name for name in TOOLS if "outputSchema" in tools[name]] == []
        refused = await caller.refusal("tools/call", name="list_tasks", arguments={}, task={})
        assert refused["code"] == -32601


@requirement("X-12")
async def test_models_are_told_what_the_tools_are_for(bench: Bench) -> None:
    async with served(bench.server) as place:
        tools = await (await place.memory()).tools()
    for name in TOOLS:
        assert tools[name]["description"]
        described = tools[name]["inputSchema"]["properties"].values()
        assert [given for given in described if not given.get("description")] == []
    read_only = {name for name in TOOLS if tools[name]["annotations"]["readOnlyHint"]}
    assert read_only == {"get_task", "wait_task", "list_tasks"}


@requirement("X-12")
async def test_an_existing_server_offers_them_too(version: str) -> None:
    tasks = Tasks("memory://")
    existing = MCPServer[Any]("test", extensions=[tasks], lifespan=tasks.lifespan)

    @existing.tool()
    @tasks.tool()
    async def add(a: int) -> int:
        return a + 1

    async with served(existing) as place:
        caller = await place.memory(version)
        assert await offered(caller) == TOOLS
        assert text_of(await caller.use("add", a=1)) == "2"


@requirement("X-12")
async def test_a_server_that_is_served_again_still_hides_them_from_clients_with_tasks(bench: Bench) -> None:
    for _ in range(2):
        async with served(bench.server) as place:
            assert await offered(await place.memory(NEW, WITH_TASKS)) == set()
            assert await offered(await place.memory(NEW)) == TOOLS
