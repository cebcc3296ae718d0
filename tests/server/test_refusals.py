"""What is refused on the wire, with which code: wrong headers, missing capabilities, unknown ids, old methods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from coatcheck import Policy
from coatcheck.server import TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.asgi import running
from tests.server.conftest import Connect
from tests.server.wire import EXTENSION, OverHTTP, headers, in_memory, over_http

pytestmark = pytest.mark.anyio

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
NOT_FOUND = (-32602, "Failed to retrieve task: Task not found", None)


@pytest.fixture
def server(server: TaskServer) -> TaskServer:
    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    return server


@pytest.fixture
async def http(server: TaskServer) -> AsyncGenerator[OverHTTP]:
    async with over_http(server) as caller:
        yield caller


def _params(method: str, task_id: str) -> dict[str, Any]:
    return {"taskId": task_id, **({"inputResponses": {}} if method == "tasks/update" else {})}


async def _refusal(caller: OverHTTP | Any, method: str, params: dict[str, Any]) -> tuple[int, str, Any]:
    with pytest.raises(MCPError) as refused:
        await caller.request(method, params)
    return refused.value.code, refused.value.message, refused.value.error.data


# Capabilities


@requirement("S-063", "C-002", "ER-1", "S-004", "S-002", "T-02")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("capabilities", [{}, {"extensions": {}}, {"tasks": {"cancel": {}, "list": {}}}], ids=str)
async def test_a_client_that_does_not_declare_the_extension_is_told_what_is_missing(
    http: OverHTTP, method: str, capabilities: dict[str, Any]
) -> None:
    task_id = await http.hand_in("endless")
    other = http.again(capabilities=capabilities)
    answer = await other.post(other.message(method, _params(method, task_id)))
    error = answer.message()["error"]
    assert (answer.status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    assert (await http.get(task_id))["status"] == "working"


@requirement("S-063")
@pytest.mark.parametrize("method", METHODS)
async def test_a_missing_capability_is_told_before_anything_about_the_task(http: OverHTTP, method: str) -> None:
    refused = await _refusal(http.again(capabilities={}), method, _params(method, "no such task"))
    assert refused[0] == -32021


# Headers


@requirement("S-059", "S-060", "C-022", "ER-7")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mcp-name", None),
        ("mcp-name", "another"),
        ("mcp-name", ""),
        ("mcp-name", "=?base64?AAAA?="),
        ("mcp-name", "=?base64?not base64?="),
        ("mcp-method", None),
        ("mcp-method", "tasks/other"),
        ("mcp-method", "TASKS/GET"),
    ],
    ids=str,
)
async def test_a_routing_header_that_is_missing_or_wrong_is_refused(
    http: OverHTTP, method: str, name: str, value: str | None
) -> None:
    task_id = await http.hand_in("endless")
    body = http.message(method, _params(method, task_id))
    given = [header for header in headers(body) if header[0] != name]
    answer = await http.post(body, [*given, *([] if value is None else [(name, value)])])
    assert (answer.status, answer.message()["error"]["code"]) == (400, -32020)
    assert (await http.get(task_id))["status"] == "working"


@requirement("S-059")
@pytest.mark.parametrize("method", METHODS)
async def test_a_name_header_may_be_encoded(http: OverHTTP, method: str) -> None:
    body = http.message(method, _params(method, "caf\u00e9"))
    answer = await http.post(body, headers(body, ("mcp-name", "=?base64?Y2Fmw6k=?=")))
    assert answer.message()["error"]["code"] == -32602, "the header is right, only there is no such task"


@requirement("ER-7")
async def test_a_version_that_nobody_knows_is_refused_by_its_own_code(http: OverHTTP) -> None:
    body = http.message("tasks/get", {"taskId": "a"})
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
    answer = await http.post(body, headers(body, ("mcp-protocol-version", "2099-01-01")))
    assert (answer.status, answer.message()["error"]["code"]) == (400, -32022)


@requirement("ER-7")
async def test_a_version_that_contradicts_the_header_is_a_mismatch(http: OverHTTP) -> None:
    body = http.message("tasks/get", {"taskId": "a"})
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
    answer = await http.post(body)
    assert (answer.status, answer.message()["error"]["code"]) == (400, -32020)


# Ids


@requirement("S-061", "S-045", "S-051", "R-27", "T-02")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task_id", ["no such task", "", "a" * 1000, "../../etc/passwd", "' OR 1=1 --", "0"])
async def test_an_unknown_task_is_not_found(server: TaskServer, connect: Connect, method: str, task_id: str) -> None:
    async with connect(server) as caller:
        assert await _refusal(caller, method, _params(method, task_id)) == NOT_FOUND


@requirement("S-061", "S-021")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task_id", [None, 7, 1.5, True, ["a"], {"id": "a"}], ids=str)
async def test_an_id_that_is_no_text_is_refused(http: OverHTTP, method: str, task_id: Any) -> None:
    body = http.message(method, _params(method, task_id))
    answer = await http.post(body)
    assert answer.message()["error"]["code"] in (-32602, -32020)
    assert answer.status == 400


@requirement("S-021")
@pytest.mark.parametrize("method", METHODS)
async def test_a_request_without_an_id_is_refused(server: TaskServer, method: str) -> None:
    async with in_memory(server) as caller:
        assert (await _refusal(caller, method, {}))[0] == -32602


@requirement("R-27", "S-034", "S-064", "R-15", "R-12")
@pytest.mark.parametrize("method", METHODS)
async def test_an_expired_task_is_refused_in_the_same_words_as_an_unknown_one(method: str) -> None:
    server = TaskServer("test", store="memory://", policy=Policy(retention=timedelta(milliseconds=1)))

    @server.tool(task=TaskPolicy("optional", ttl=0.001))
    async def text() -> str:
        return "done"

    async with over_http(server) as caller:
        task_id = await caller.hand_in("text")
        await _gone(server, task_id)
        assert await _refusal(caller, method, _params(method, task_id)) == NOT_FOUND


async def _gone(server: TaskServer, task_id: str) -> None:
    """Wait until a task's life is over; whoever waits for its news is told then."""
    engine = server.tasks.running.engine
    async with asyncio.timeout(5):
        while any(task.id == task_id for task in await engine.list()):
            await engine.sweep()


# Methods


@requirement("C-019", "R-06", "R-07", "S-070", "S-072", "S-067")
@pytest.mark.parametrize("method", ["tasks/result", "tasks/list", "tasks/sendInput", "tasks/create", "tasks/"])
async def test_methods_of_the_old_generation_do_not_exist(http: OverHTTP, method: str) -> None:
    task_id = await http.hand_in("endless")
    body = http.message(method, {"taskId": task_id})
    answer = await http.post(body, headers(body, ("mcp-name", task_id)))
    assert (answer.status, answer.message()["error"]["code"]) == (404, -32601)


@requirement("C-019", "S-070")
@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_of_the_old_generation_do_not_exist_in_memory_either(server: TaskServer, method: str) -> None:
    async with in_memory(server) as caller:
        assert (await _refusal(caller, method, {"taskId": "a"}))[0] == -32601


@requirement("S-072", "S-006")
async def test_a_client_of_the_old_generation_gets_plain_answers(server: TaskServer) -> None:
    @server.tool(task=True)
    async def add(a: int) -> int:
        return a + 1

    async with in_memory(server, mode="legacy") as caller:
        assert (await caller.client.call_tool("add", {"a": 1})).structured_content == {"result": 2}


async def test_a_client_of_the_old_generation_does_not_find_the_methods_of_the_new(server: TaskServer) -> None:
    async with in_memory(server, mode="legacy") as caller:
        assert (await _refusal(caller, "tasks/update", {"taskId": "a", "inputResponses": {}}))[0] == -32601


@requirement("S-072", "R-09")
async def test_a_tool_that_must_be_a_task_is_refused_to_the_old_generation(server: TaskServer) -> None:
    @server.tool(task="required")
    async def slow() -> None: ...

    async with in_memory(server, mode="legacy") as caller:
        with pytest.raises(MCPError) as refused:
            await caller.client.call_tool("slow", {})
    assert refused.value.code in (-32601, -32021)


# notifications/cancelled


@requirement("S-049")
async def test_a_cancelled_notification_does_not_cancel_a_task(http: OverHTTP) -> None:
    call = http.message("tools/call", {"name": "endless", "arguments": {}})
    task_id = (await http.post(call)).message()["result"]["taskId"]
    for request_id in (call["id"], task_id):
        body = http.message("notifications/cancelled", {"requestId": request_id, "taskId": task_id})
        del body["id"]
        assert (await http.post(body)).status == 202
    assert (await http.get(task_id))["status"] == "working"


@requirement("R-25")
async def test_work_survives_the_connection_it_was_asked_on(server: TaskServer) -> None:
    go_on = asyncio.Event()

    @server.tool(task=True)
    async def slow() -> str:
        await go_on.wait()
        return "done"

    app = server.streamable_http_app()
    async with running(app):
        caller = OverHTTP(app, server.tasks)
        async with caller.open(caller.message("tools/call", {"name": "slow", "arguments": {}})) as sent:
            task_id = (await sent.answer()).message()["result"]["taskId"]
            sent.hang_up()
        go_on.set()
        assert (await caller.again().finished(task_id))["status"] == "completed"


@requirement("S-059")
async def test_a_lenient_server_takes_requests_without_a_name_header_but_not_with_a_wrong_one() -> None:
    server = TaskServer("test", store="memory://", strict_headers=False)

    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    async with over_http(server) as caller:
        task_id = await caller.hand_in("endless")
        body = caller.message("tasks/get", {"taskId": task_id})
        without = [header for header in headers(body) if header[0] != "mcp-name"]
        assert (await caller.post(body, without)).message()["result"]["taskId"] == task_id
        wrong = await caller.post(body, [*without, ("mcp-name", "another")])
        assert (wrong.status, wrong.message()["error"]["code"]) == (400, -32020)
