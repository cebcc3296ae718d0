"""What is too large, as clients of 2025-11-25 and those without tasks hear of it."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck import Policy
from tests.v2025.bench import ANN, Bench
from tests.v2025.wire import Talk, related, served, text_of

pytestmark = pytest.mark.anyio

LIMIT = 3000
POLICY = Policy(max_arguments=LIMIT, max_answer=LIMIT, max_result=LIMIT)
LARGE: dict[str, Any] = {"action": "accept", "content": {"name": "x" * LIMIT}}


class Sized(Bench):
    async def length(self, text: str) -> int:
        return len(text)

    async def repeat(self, times: int) -> str:
        return "x" * times


@pytest.fixture
def bench() -> Sized:
    return Sized("length", "repeat", "ask", "ask_carefully", policy=POLICY)


async def test_arguments_beyond_the_limit_are_refused_and_leave_no_task(caller: Talk) -> None:
    most = LIMIT - len('{"text":""}')
    wish = {"name": "length", "arguments": {"text": "x" * (most + 1)}, "task": {}}
    refused = await caller.refusal("tools/call", **wish)
    assert (refused["code"], refused["data"]) == (-32602, {"bytes": LIMIT + 1, "limit": LIMIT})
    assert "pass a link" in refused["message"]
    task_id = await caller.hand_in("length", text="x" * most)
    assert text_of(await caller.collect(task_id)) == str(most)


async def test_a_result_beyond_the_limit_is_an_error_of_its_task(caller: Talk) -> None:
    task_id = await caller.hand_in("repeat", times=LIMIT)
    refused = await caller.refusal("tasks/result", taskId=task_id)
    assert (refused["code"], refused["data"]["limit"]) == (-32603, LIMIT)
    seen = await caller.get(task_id)
    assert seen["status"] == "failed"
    assert "return a link, or fewer rows" in seen["statusMessage"]


async def test_an_answer_beyond_the_limit_is_an_error_the_tool_can_catch(caller: Talk) -> None:
    caller.answers["elicitation/create"] = LARGE
    result = await caller.collect(task_id := await caller.hand_in("ask_carefully"))
    assert text_of(result).startswith("-32602: The answer to ")
    assert "bytes of JSON, but at most 3000 are allowed" in text_of(result)
    assert result["_meta"] == related(task_id)


async def test_one_that_is_answered_by_a_tool_stays_open(bench: Sized) -> None:
    tickets = Sized("ask", policy=POLICY, fallback_tools=True)
    tickets.server.add_tool(tickets.ask, "asks", task=True)
    async with served(tickets.server) as place:
        caller = await place.memory("2025-06-18", capabilities={})
        task_id = (await caller.use("asks"))["structuredContent"]["task"]["taskId"]
        refused = await caller.use("answer_task", task_id=task_id, content=LARGE["content"])
        assert refused["isError"]
        assert "the question is still open" in text_of(refused)
        await caller.use("answer_task", task_id=task_id, content=ANN["content"])
        assert text_of(await caller.use("wait_task", task_id=task_id)) == "Ann"
