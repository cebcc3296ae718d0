"""Handing in: what becomes a task, what it looks like, and what is refused before there is one."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

from coatcheck.server import TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import ABLE, EXTENSION, TASK_SUPPORT, OverHTTP, WithSDK, in_memory, message, over_http

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(server: TaskServer) -> TaskServer:
    @server.tool(task=True)
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    @server.tool()
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    @server.prompt()
    def poem() -> str:
        return "Roses are red"

    @server.resource("note://one")
    def note() -> str:
        return "one"

    return server


@requirement("S-012", "S-017", "S-011", "C-004", "R-16", "C-015", "C-016", "ER-6", "R-13", "R-14", "S-019", "R-29")
async def test_a_creation_has_the_fields_of_a_task_and_no_others(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        created = await caller.call("endless")
    assert set(created) == {
        *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta"),
    }
    assert (created["resultType"], created["status"]) == ("task", "working")
    assert (created["ttlMs"], created["pollIntervalMs"]) == (3_600_000, 2000)
    assert type(created["ttlMs"]) is type(created["pollIntervalMs"]) is int
    assert datetime.fromisoformat(created["createdAt"]) <= datetime.fromisoformat(created["lastUpdatedAt"])


@requirement("S-018", "C-021", "S-021", "S-027", "S-032")
async def test_a_task_can_be_polled_as_soon_as_its_creation_is_answered(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        created = await caller.call("endless")
        polled = await caller.get(created["taskId"])
    assert (polled["resultType"], polled["status"]) == ("complete", "working")
    assert polled["createdAt"] == created["createdAt"]


@requirement("S-018")
async def test_a_created_task_is_on_disk_for_any_other_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    one, other = (TaskServer("test", store=url, concurrency=0) for _ in range(2))

    @one.tool(task=True)
    async def slow() -> None: ...

    async with in_memory(one) as caller, in_memory(other) as elsewhere:
        assert (await elsewhere.get(await caller.hand_in("slow")))["status"] == "working"


@requirement("R-29", "S-019")
async def test_a_task_no_worker_is_there_for_says_that_it_waits() -> None:
    server = TaskServer("test", store="memory://", concurrency=0)

    @server.tool(task=True)
    async def slow() -> None: ...

    async with in_memory(server) as caller:
        created = await caller.call("slow")
    assert (created["status"], created["statusMessage"]) == ("working", "Waiting for a worker")


@requirement("S-001", "S-003", "C-001", "S-072")
async def test_the_extension_is_declared_under_extensions_and_nowhere_else(server: TaskServer) -> None:
    async with over_http(server) as caller:
        capabilities = (await caller.request("server/discover", {}))["capabilities"]
    assert capabilities["extensions"] == {EXTENSION: {}}
    assert "tasks" not in capabilities


@requirement("S-002", "S-004", "S-006", "C-003", "C-005")
async def test_what_was_declared_earlier_does_not_count(server: TaskServer) -> None:
    async with over_http(server) as caller:
        assert (await caller.call("add", a=1))["resultType"] == "task"
        caller.capabilities = {}
        plain = await caller.call("add", a=1)
    assert plain["resultType"] == "complete"
    assert plain["structuredContent"] == {"result": 2}
    assert "taskId" not in plain


@requirement("S-006", "S-072")
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"tasks": {"requests": {"tools": {"call": {}}}}},
        {"experimental": {EXTENSION: {}}},
        {"extensions": {}},
        {"extensions": {"com.example/tasks": {}}},
        {"extensions": None},
        {"extensions": [EXTENSION]},
        {"extensions": {EXTENSION: True}},
        None,
        [],
        "tasks",
    ],
    ids=json.dumps,
)
async def test_nothing_but_the_extension_makes_a_task(server: TaskServer, capabilities: Any) -> None:
    body = message("tools/call", {"name": "add", "arguments": {"a": 1}}, capabilities)
    async with over_http(server) as caller:
        answer = (await caller.post(body)).message()
    assert answer.get("result", {}).get("resultType") != "task"


@requirement("S-001")
@pytest.mark.parametrize("settings", [{}, {"later": {"versions": "may say more"}}])
async def test_settings_of_the_extension_do_not_matter(server: TaskServer, settings: dict[str, Any]) -> None:
    async with over_http(server, capabilities={"extensions": {EXTENSION: settings}}) as caller:
        assert (await caller.call("add", a=1))["resultType"] == "task"


@requirement("S-005", "C-005", "S-011")
async def test_to_declare_is_not_to_ask_for_a_task(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        answer = await caller.call("greet", name="Ann")
    assert answer["resultType"] == "complete"
    assert answer["content"] == [{"type": "text", "text": "Hello, Ann!"}]
    assert "taskId" not in answer


@requirement("C-020", "S-072", "S-005")
@pytest.mark.parametrize("param", [{}, {"ttl": 5}, None])
async def test_a_task_param_of_the_old_generation_means_nothing(server: TaskServer, param: Any) -> None:
    async with over_http(server) as caller:
        for tool, kind in (("add", "task"), ("greet", "complete")):
            given = {"name": tool, "arguments": {"a": 1, "name": "Ann"}, "task": param}
            answer = await caller.request("tools/call", given)
            assert (answer["resultType"], answer.get("ttlMs", 3_600_000)) == (kind, 3_600_000)


@requirement("S-010", "R-22", "S-011")
async def test_prompts_and_resources_are_never_tasks(server: TaskServer) -> None:
    requests = {
        "prompts/get": {"name": "poem"},
        "resources/read": {"uri": "note://one"},
        "prompts/list": {},
        "tools/list": {},
    }
    async with over_http(server) as caller:
        for method, params in requests.items():
            named = [("mcp-name", str(value)) for value in params.values()]
            body = caller.message(method, params)
            headers = [
                ("host", "127.0.0.1:8000"),
                ("content-type", "application/json"),
                ("accept", "application/json, text/event-stream"),
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", method),
                *named,
            ]
            assert (await caller.post(body, headers)).message()["result"]["resultType"] == "complete"


@requirement("S-068", "R-11")
async def test_an_id_has_at_least_128_random_bits(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        ids = [await caller.hand_in("endless") for _ in range(50)]
    assert len(set(ids)) == 50
    alike = max(_common_prefix(one, other) for one in ids for other in ids if one != other)
    assert (len(ids[0]) - alike) * 6 >= 128, "what ids have in common helps nobody to guess the rest"


def _common_prefix(one: str, other: str) -> int:
    return next(index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)


@requirement("S-067")
async def test_tools_do_not_tell_of_tasks_in_a_way_of_their_own(server: TaskServer) -> None:
    async with over_http(server) as caller:
        body = caller.message("tools/list", {})
        tools = (await caller.post(body)).message()["result"]["tools"]
    assert all(not {"execution", "taskSupport", "task"} & tool.keys() for tool in tools)


async def _shown(server: TaskServer) -> dict[str, Any]:
    """Return the tools as they are listed, by name."""
    async with over_http(server) as caller:
        listed = await caller.request("tools/list", {})
    return {tool["name"]: tool for tool in listed["tools"]}


@requirement("R-08")
@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (None, "forbidden"),
        (False, "forbidden"),
        (True, "optional"),
        ("required", "required"),
        (TaskPolicy("required", fallback=True), "required"),
    ],
    ids=str,
)
async def test_tools_say_in_their_meta_whether_they_may_be_tasks(server: TaskServer, wish: Any, said: str) -> None:
    @server.tool(task=wish)
    async def tool() -> None: ...

    assert (await _shown(server))["tool"]["_meta"] == {TASK_SUPPORT: said}


@requirement("R-08")
async def test_what_a_tool_has_in_its_meta_stays(server: TaskServer) -> None:
    @server.tool(task=True, meta={"com.example/cost": 7})
    async def tool() -> None: ...

    assert (await _shown(server))["tool"]["_meta"] == {"com.example/cost": 7, TASK_SUPPORT: "optional"}


@requirement("R-08")
async def test_where_no_tool_may_be_a_task_none_says_so() -> None:
    server = TaskServer("test", store="memory://")

    @server.tool()
    async def tool() -> None: ...

    assert "_meta" not in (await _shown(server))["tool"]


# What is refused before there is a task


class Size(BaseModel):
    width: Annotated[int, Field(gt=0)]


BAD_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("measure", {}),
    ("measure", {"size": {"width": 0}}),
    ("measure", {"size": "large"}),
    ("measure", {"size": {"width": "x"}, "times": None}),
    ("no_such_tool", {"size": {"width": 1}}),
]


async def _answer_of(caller: OverHTTP | WithSDK, tool: str, arguments: dict[str, Any]) -> Any:
    try:
        return await caller.call(tool, **arguments)
    except MCPError as error:
        return error.error


@pytest.mark.parametrize(("tool", "arguments"), BAD_CALLS)
async def test_bad_arguments_are_refused_as_in_a_plain_call_and_make_no_task(
    server: TaskServer, tool: str, arguments: dict[str, Any]
) -> None:
    @server.tool(task=True)
    async def measure(size: Size, times: int = 1) -> int:
        return size.width * times

    async with over_http(server) as caller:
        asked_for_a_task = await _answer_of(caller, tool, arguments)
        assert asked_for_a_task == await _answer_of(caller.again(capabilities={}), tool, arguments)
        assert await server.tasks.running.engine.list() == []


async def test_a_tool_has_the_same_schema_whether_it_may_be_a_task_or_not(server: TaskServer) -> None:
    async def measure(size: Size, ctx: Context, times: Annotated[int, Field(description="How often")] = 1) -> list[int]:
        """Measure something."""
        return [size.width] * times

    server.add_tool(measure, "plain")
    server.add_tool(measure, "slow", task=True)
    plain, slow = [tool for tool in await server.list_tools() if tool.name in ("plain", "slow")]
    left_out = {"name", "title"}
    assert _untitled(plain.model_dump(exclude=left_out)) == _untitled(slow.model_dump(exclude=left_out))
    assert plain.description == "Measure something."


def _untitled(schema: Any) -> Any:
    """Without the titles pydantic makes of a function's name."""
    if isinstance(schema, dict):
        return {key: _untitled(value) for key, value in schema.items() if key != "title"}  # pyright: ignore[reportUnknownVariableType]
    return schema


async def test_arguments_reach_the_body_as_they_would_in_a_plain_call(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def sizes(
        size: Size, when: datetime, many: list[Size], text: str = "\u00e9", nothing: int | None = None
    ) -> str:
        return f"{size.width} {when:%Y} {many[0].width} {text} {nothing} {type(size).__name__}"

    arguments = {"size": {"width": 3}, "when": "2026-01-01T00:00:00Z", "many": [{"width": 4}], "text": "\U0001f9e5"}
    async with connect(server) as caller:
        result = await caller.result("sizes", **arguments)
    assert result["content"] == [{"type": "text", "text": "3 2026 4 \U0001f9e5 None Size"}]


async def test_the_server_of_a_client_that_declares_tasks_can_have_none() -> None:
    async with in_memory(TaskServer("test", store="memory://")) as caller:
        assert (await caller.client.list_tools()).tools == []


async def test_a_client_that_hangs_up_on_a_call_leaves_no_task_without_a_worker(server: TaskServer) -> None:
    async with over_http(server) as caller:
        for turns in range(30):  # of the loop, until it hangs up: before, while and after the task is made
            async with caller.open(message("tools/call", {"name": "endless", "arguments": {}}, ABLE)):
                for _ in range(turns):
                    await asyncio.sleep(0)
        held = await server.tasks.running.engine.list()
    assert held
    assert all(task.lease for task in held)
