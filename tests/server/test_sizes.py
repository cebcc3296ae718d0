"""What is too large for a task is refused before anything is written; a result that is fails its task."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from coatcheck import Policy
from coatcheck.errors import TooLarge
from coatcheck.server import TaskContext, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import Caller, in_memory, over_http

pytestmark = pytest.mark.anyio

LIMIT = 2000
POLICY = Policy(max_arguments=LIMIT, max_answer=LIMIT, max_journal=LIMIT, max_result=LIMIT)


class Name(BaseModel):
    name: str


@pytest.fixture
def server() -> TaskServer:
    server = TaskServer("test", version="1", store="memory://", policy=POLICY)

    @server.tool(task=True)
    async def length(text: str) -> int:
        return len(text)

    @server.tool(task=True, structured_output=False)
    async def repeat(times: int) -> str:
        return "x" * times

    @server.tool(task=True)
    async def refuse(times: int) -> str:
        raise MCPError(-32050, "Too fast", "x" * times)

    @server.tool(task=True)
    async def ask(ctx: Context[Any, Any]) -> str:
        answer = await ctx.elicit("Who?", Name)
        return answer.data.name[:3] if answer.action == "accept" else answer.action

    @server.tool(task=True)
    async def talk(task: TaskContext) -> str:
        try:
            await task.output("x" * LIMIT)
        except TooLarge as error:
            return str(error)
        return "never"

    return server


async def refusal(caller: Caller, **arguments: Any) -> MCPError:
    with pytest.raises(MCPError) as refused:
        await caller.call("length", **arguments)
    return refused.value


async def rows(caller: Caller) -> int:
    return len(await caller.tasks.running.engine.list_all())


@requirement("G-016")
async def test_arguments_beyond_the_limit_are_refused_with_both_sizes_and_leave_no_task(
    server: TaskServer, connect: Connect
) -> None:
    most = LIMIT - len('{"text":""}')
    async with connect(server) as caller:
        refused = await refusal(caller, text="x" * (most + 1))
        assert (refused.code, refused.error.data) == (-32602, {"bytes": LIMIT + 1, "limit": LIMIT})
        assert refused.message == (
            f"The arguments take {LIMIT + 1} bytes of JSON, but at most {LIMIT} are allowed; "
            "pass a link to large data instead."
        )
        assert await rows(caller) == 0
        assert (await caller.result("length", text="x" * most))["structuredContent"] == {"result": most}


async def test_so_is_what_else_comes_with_a_call(server: TaskServer) -> None:
    async with over_http(server) as caller:
        with pytest.raises(MCPError, match="What comes with the call takes") as refused:
            await caller.request(
                "tools/call", {"name": "length", "arguments": {"text": ""}, "_meta": {"a": "x" * LIMIT}}
            )
        assert refused.value.code == -32602
        assert await rows(caller) == 0


async def test_a_client_without_tasks_is_refused_as_well(server: TaskServer) -> None:
    async with over_http(server) as caller:
        refused = await refusal(caller.again(capabilities={}), text="x" * LIMIT)
        assert refused.code == -32602
        assert await rows(caller) == 0


async def test_answers_beyond_the_limit_leave_the_question_open(server: TaskServer, connect: Connect) -> None:
    def answer(size: int) -> dict[str, Any]:
        said = {"action": "accept", "content": {"name": ""}}
        room = size - len('{"action":"accept","content":{"name":""}}')
        return {**said, "content": {"name": "x" * room}}

    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        (key,) = (await caller.asked(task_id))["inputRequests"]
        with pytest.raises(MCPError) as refused:
            await caller.update(task_id, {key: answer(LIMIT + 1)})
        assert (refused.value.code, refused.value.error.data) == (-32602, {"bytes": LIMIT + 1, "limit": LIMIT})
        assert "the question is still open" in refused.value.message
        assert list((await caller.get(task_id))["inputRequests"]) == [key]
        await caller.update(task_id, {key: answer(LIMIT)})
        assert (await caller.finished(task_id))["result"]["structuredContent"] == {"result": "xxx"}


async def test_a_result_beyond_the_limit_fails_its_task(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        frame = len(str(await caller.result("repeat", times=0)).replace(" ", "").replace("False", "false"))
        task = await caller.finished(await caller.hand_in("repeat", times=LIMIT))
        assert task["status"] == "failed"
        assert task["error"]["code"] == -32603
        assert task["error"]["data"]["limit"] == LIMIT
        assert task["error"]["data"]["bytes"] > LIMIT
        assert "return a link, or fewer rows" in task["error"]["message"]
        assert (await caller.finished(await caller.hand_in("repeat", times=LIMIT - frame)))["status"] == "completed"


async def test_an_error_with_data_beyond_the_limit_keeps_its_code(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        task = await caller.finished(await caller.hand_in("refuse", times=LIMIT))
        assert task["error"]["code"] == -32050
        assert task["error"]["message"].startswith("Too fast (Its data take")
        assert task["error"]["data"] == {"bytes": LIMIT + 2, "limit": LIMIT}


async def test_a_tool_whose_output_is_too_large_hears_of_it(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        said = (await caller.result("talk"))["structuredContent"]["result"]
        assert said.startswith("With this the task's journal would take")
