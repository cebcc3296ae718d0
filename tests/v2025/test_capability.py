"""What a client of 2025-11-25 is told of tasks before it calls anything, and what older clients are not."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from coatcheck.server import TaskPolicy, Tasks, TaskServer
from tests.requirements.marks import requirement
from tests.v2025.bench import Bench, guarded
from tests.v2025.wire import ASKABLE, NOT_FOUND, OLD, OLDER, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio

TASKS: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
LISTED: dict[str, Any] = {**TASKS, "list": {}}
METHODS = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list")
OLD_VERSIONS = ("2024-11-05", OLDER, OLD)


def declared(caller: Talk) -> Any:
    return caller.greeting["capabilities"].get("tasks")


# The capability


@requirement("F-008", "E-043", "F-007", "F-009", "E-001")
async def test_tasks_are_declared_in_the_handshake(caller: Talk) -> None:
    assert declared(caller) == LISTED


@requirement("F-008")
async def test_what_else_the_server_declares_stays(caller: Talk) -> None:
    assert "tools" in caller.greeting["capabilities"]
    assert caller.greeting["serverInfo"]["name"] == "test"


@requirement("F-007", "F-002", "G-003")
async def test_a_server_of_which_no_tool_may_be_a_task_declares_none(transport: Transport) -> None:
    server = TaskServer("test", store="memory://")

    @server.tool()
    async def plain() -> str:
        return "plain"

    async with served(server, transport) as place:
        caller = await place.connect(transport)
        assert declared(caller) is None
        assert "coatcheck" not in str(caller.greeting["capabilities"])
        assert "execution" not in (await caller.tools())["plain"]


@requirement("G-002", "F-007")
async def test_where_no_tool_may_be_a_task_the_wish_for_one_is_ignored(transport: Transport) -> None:
    server = TaskServer("test", store="memory://")

    @server.tool()
    async def plain() -> str:
        return "plain"

    async with served(server, transport) as place:
        caller = await place.connect(transport)
        result = await caller.ask("tools/call", name="plain", arguments={}, task={"ttl": 1000})
    assert result["content"][0]["text"] == "plain"
    assert "task" not in result


@requirement("F-007")
async def test_one_tool_that_may_be_a_task_is_enough() -> None:
    tasks = Tasks("memory://")
    existing = MCPServer[Any]("test", extensions=[tasks], lifespan=tasks.lifespan)

    @existing.tool()
    @tasks.tool()
    async def add(a: int) -> int:
        return a + 1

    async with served(existing) as place:
        caller = await place.http()
        assert declared(caller) == LISTED
        assert (await caller.tools())["add"]["execution"] == {"taskSupport": "optional"}


@requirement("F-009", "G-015")
async def test_where_callers_cannot_be_told_apart_there_is_no_list(bench: Bench) -> None:
    async with served(bench.server, stateless_http=True) as place:
        caller = await place.http(stands=False)
        assert declared(caller) == TASKS
        assert (await caller.refusal("tasks/list"))["code"] == -32601


@requirement("F-009", "G-015")
async def test_where_sessions_do_not_count_there_is_no_list() -> None:
    async with served(Bench(bind_sessions=False).server) as place:
        caller = await place.http()
        assert declared(caller) == TASKS
        assert (await caller.refusal("tasks/list"))["code"] == -32601


@requirement("F-009")
@pytest.mark.parametrize("options", [{}, {"bind_sessions": False}], ids=["sessions", "no sessions"])
@pytest.mark.parametrize("stateless", [False, True], ids=["stateful", "stateless"])
async def test_known_callers_have_a_list_whatever_their_sessions(options: dict[str, Any], stateless: bool) -> None:
    async with served(guarded(**options).server, stateless_http=stateless) as place:
        caller = await place.http(token="ann", stands=False)
        assert declared(caller) == LISTED
        assert await caller.ask("tasks/list") == {"tasks": []}


@requirement("F-009")
async def test_a_connection_that_is_the_only_one_has_a_list_even_if_sessions_do_not_count() -> None:
    async with served(Bench(bind_sessions=False).server) as place:
        caller = await place.memory()
        assert declared(caller) == LISTED
        assert await caller.ask("tasks/list") == {"tasks": []}


@requirement("F-008", "E-058")
async def test_the_extension_of_the_next_version_is_not_declared_in_this_one(caller: Talk) -> None:
    assert not caller.greeting["capabilities"].get("extensions")


@requirement("X-08")
async def test_that_keys_are_heeded_is_declared_where_there_is_room_for_it() -> None:
    async with served(Bench(bind_sessions=False).server) as place:
        caller = await place.http()
        assert caller.greeting["capabilities"]["experimental"] == {"coatcheck/idempotencyKey": {}}


@requirement("X-08")
async def test_keys_that_are_good_for_one_session_only_are_declared_as_such() -> None:
    async with served(Bench().server) as place:
        caller = await place.http()
        assert caller.greeting["capabilities"]["experimental"] == {"coatcheck/idempotencyKey": {"scope": "session"}}
        alone = await place.memory()
        assert alone.greeting["capabilities"]["experimental"] == {"coatcheck/idempotencyKey": {}}


# The tools


@requirement("F-001", "F-002", "F-003", "E-007", "R-08")
async def test_tools_say_whether_they_may_be_tasks(caller: Talk) -> None:
    tools = await caller.tools()
    assert tools["add"]["execution"] == {"taskSupport": "optional"}
    assert tools["task_only"]["execution"] == {"taskSupport": "required"}
    assert "execution" not in tools["plain"]


@requirement("F-003")
async def test_a_tool_that_is_forbidden_to_be_a_task_says_nothing() -> None:
    server = TaskServer("test", store="memory://", task=True)

    @server.tool(task="forbidden")
    async def never() -> None: ...

    @server.tool()
    async def perhaps() -> None: ...

    async with served(server) as place:
        tools = await (await place.memory()).tools()
    assert "execution" not in tools["never"]
    assert tools["perhaps"]["execution"] == {"taskSupport": "optional"}


@requirement("E-005", "E-006", "E-008", "E-009")
@pytest.mark.parametrize(
    ("whole", "own", "said"),
    [
        (None, True, "optional"),
        (None, TaskPolicy("required", poll_interval=7), "required"),
        (True, None, "optional"),
        (True, False, None),
        ("required", None, "required"),
        ("required", "optional", "optional"),
        ("required", TaskPolicy(poll_interval=7), "required"),
        (False, None, None),
        (False, "required", "required"),
    ],
    ids=str,
)
async def test_a_tools_own_setting_beats_the_servers(whole: Any, own: Any, said: str | None) -> None:
    server = TaskServer("test", store="memory://", task=whole)

    @server.tool(task=own)
    async def tool() -> None: ...

    async with served(server) as place:
        tool_as_shown = (await (await place.memory()).tools())["tool"]
    assert tool_as_shown.get("execution") == (None if said is None else {"taskSupport": said})


@requirement("F-001", "R-09")
async def test_a_tool_that_falls_back_for_others_is_still_required_here() -> None:
    server = TaskServer("test", store="memory://")

    @server.tool(task=TaskPolicy("required", fallback=True))
    async def tool() -> None: ...

    async with served(server) as place:
        tools = await (await place.memory()).tools()
    assert tools["tool"]["execution"] == {"taskSupport": "required"}


# Older versions


@requirement("F-003", "E-058", "G-002")
@pytest.mark.parametrize("version", OLD_VERSIONS)
async def test_an_older_client_sees_no_trace_of_tasks(bench: Bench, transport: Transport, version: str) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version, capabilities={**ASKABLE, "tasks": {}})
        assert caller.greeting["protocolVersion"] == version
        assert declared(caller) is None
        assert "coatcheck" not in str(caller.greeting["capabilities"])
        assert [name for name, tool in (await caller.tools()).items() if "execution" in tool] == []


@requirement("E-058")
@pytest.mark.parametrize("version", OLD_VERSIONS)
async def test_an_older_client_does_not_find_the_methods_of_tasks(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.http(version=version)
        for method in METHODS:
            assert (await caller.refusal(method, taskId="a"))["code"] == -32601


@requirement("G-002")
@pytest.mark.parametrize("version", OLD_VERSIONS)
async def test_the_wish_of_an_older_client_for_a_task_is_ignored(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.http(version=version)
        added = await caller.ask("tools/call", name="add", arguments={"a": 1}, task={"ttl": 1})
        plain = await caller.ask("tools/call", name="plain", arguments={}, task={"ttl": 1})
    assert (text_of(added), text_of(plain)) == ("2", "plain")
    assert caller.heard == []


@requirement("E-004")
async def test_there_are_no_other_methods_of_tasks(caller: Talk) -> None:
    for method in ("tasks/update", "tasks/sendInput", "tasks/create", "tasks/"):
        assert (await caller.refusal(method, taskId="a", inputResponses={}))["code"] == -32601


@requirement("E-001", "F-061", "F-074")
async def test_the_methods_of_tasks_are_there(caller: Talk) -> None:
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert await caller.refusal(method, taskId="no such task") == NOT_FOUND
    assert await caller.ask("tasks/list") == {"tasks": []}
