"""What servers ask: shown until it is answered, answered once, and given up when nobody can answer any more."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import REQUEST_TIMEOUT

from coatcheck.proxy.settings import ProxySettings
from tests.matrix.peers import PATIENCE
from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import Upstream

pytestmark = pytest.mark.anyio

SHORT = timedelta(seconds=0.15)
SECRET = "the-password-nobody-may-see"


async def _asked(meta: Meta) -> list[dict[str, Any]]:
    return (await meta.use("get_elicitations")).said["elicitations"]


async def _samplings(meta: Meta) -> list[dict[str, Any]]:
    return (await meta.use("get_sampling_requests")).said["sampling_requests"]


async def _respond(meta: Meta, question: str, value: str) -> None:
    said = await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": value})
    assert said.said["success"] is True


async def test_p_012_a_question_is_shown_with_its_server_its_time_and_all_it_asks(meta: Meta) -> None:
    await meta.task("ask", questions=["who?"])
    question = await meta.question()
    (asked,) = await _asked(meta)
    assert set(asked) == {"requestId", "server", "timestamp", "message", "params"}
    assert {"requestId": question, "server": "one", "message": "who?"}.items() <= asked.items()
    assert asked["params"]["message"] == "who?"
    assert asked["params"]["requestedSchema"]["required"] == ["value"]
    assert asked["timestamp"].endswith("Z")


@pytest.mark.parametrize(
    ("action", "state", "heard"),
    [("accept", "accepted", "Ada"), ("decline", "declined", "decline"), ("cancel", "cancelled", "cancel")],
)
async def test_p_013_p_033_an_answer_reaches_the_server(meta: Meta, action: str, state: str, heard: str) -> None:
    task = await meta.task("ask", questions=["who?"])
    question = await meta.question()
    content = {"content": {"value": "Ada"}} if action == "accept" else {}
    answer = await meta.use("respond_to_elicitation", request_id=question, action=action, **content)
    assert answer.said == {"success": True, "requestId": question, "state": state}
    assert answer.pending is None
    assert (await meta.use("get_task_result", task_id=task)).own == [heard]
    again = await meta.use("respond_to_elicitation", request_id=question, action=action, **content)
    assert again.error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"


async def test_p_014_a_question_is_held_for_ten_minutes_which_is_not_the_life_of_a_task() -> None:
    settings = ProxySettings()
    assert settings.question_timeout == timedelta(minutes=10)
    assert settings.question_timeout != settings.default_ttl


async def test_p_014_a_question_nobody_answers_expires_and_the_server_gets_an_error(one: Upstream) -> None:
    async with proxying([one], question_timeout=SHORT) as place:
        meta = Meta(await place.memory())
        task = await meta.task("ask", questions=["anyone?"])
        question = await meta.question()
        expired = await meta.until("elicitation_expired")
        assert expired["data"] == {"requestId": question, "server": "one", "message": "anyone?"}
        assert (await meta.settled(task))["status"] == "completed"
        (error,) = one.answers
        assert isinstance(error, MCPError)
        assert error.code == REQUEST_TIMEOUT
        assert await _asked(meta) == []


async def test_p_014_a_question_outlives_the_task_timeout_of_its_call(one: Upstream) -> None:
    """The question's time is its own: it is not cut when the call becomes a task."""
    async with proxying([one], question_timeout=timedelta(minutes=1)) as place:
        meta = Meta(await place.memory())
        call = meta.begin("execute_tool", server="one", tool="ask", args={"questions": ["?"]}, timeout_ms=100)
        question = await meta.question()
        task = (await meta.answer(call)).task_id
        await _respond(meta, question, "in time")
        assert (await meta.use("get_task_result", task_id=task)).own == ["in time"]


async def test_p_015_p_038_what_is_pending_on_a_lost_connection_is_rejected(meta: Meta, one: Upstream) -> None:
    await meta.task("ask", questions=["who?"])
    question = await meta.question()
    await meta.task("sample")
    sampling = await meta.question("sampling_request")
    await one.stop()
    await meta.until("server_disconnected")
    assert (await _asked(meta), await _samplings(meta)) == ([], [])
    gone = await meta.use("respond_to_elicitation", request_id=question, action="decline")
    assert gone.error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"
    gone = await meta.use("respond_to_sampling", request_id=sampling, content="late")
    assert gone.error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"


async def test_p_016_p_034_a_sampling_request_is_shown_and_answered(meta: Meta) -> None:
    task = await meta.task("sample")
    request = await meta.question("sampling_request")
    (asked,) = await _samplings(meta)
    assert {"requestId": request, "server": "one"}.items() <= asked.items()
    assert asked["params"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "Say something"}}]
    assert asked["params"]["maxTokens"] == 10
    answer = await meta.use("respond_to_sampling", request_id=request, content="Something", model="a person")
    assert answer.said == {"success": True, "requestId": request, "state": "completed"}
    assert (await meta.use("get_task_result", task_id=task)).own == ["a person said: Something"]
    again = await meta.use("respond_to_sampling", request_id=request, content="Something")
    assert again.error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"


async def test_p_016_a_sampling_request_nobody_answers_expires(one: Upstream) -> None:
    async with proxying([one], question_timeout=SHORT) as place:
        meta = Meta(await place.memory())
        task = await meta.task("sample")
        expired = await meta.until("sampling_expired")
        assert expired["data"] == {"requestId": await meta.question("sampling_request"), "server": "one"}
        assert (await meta.use("get_task_result", task_id=task)).own[0].startswith(f"error {REQUEST_TIMEOUT}:")


async def test_p_034_a_content_block_may_be_given_in_place_of_text(meta: Meta) -> None:
    task = await meta.task("sample")
    request = await meta.question("sampling_request")
    refused = await meta.use("respond_to_sampling", request_id=request, content={"text": "no type"})
    assert refused.error["code"] == "TOOL_ERR_INVALID_ARGUMENT"
    block = {"type": "text", "text": "as a block"}
    await meta.use("respond_to_sampling", request_id=request, content=block, model="m")
    assert (await meta.use("get_task_result", task_id=task)).own == ["m said: as a block"]


async def test_p_082_a_request_can_be_dismissed(meta: Meta) -> None:
    asking, sampling = await meta.task("ask", questions=["who?"]), await meta.task("sample")
    question = await meta.question()
    answer = await meta.use("cancel_elicitation_request", request_id=question)
    assert answer.said == {"success": True, "requestId": question, "state": "cancelled"}
    request = await meta.question("sampling_request")
    answer = await meta.use("cancel_sampling_request", request_id=request)
    assert answer.said == {"success": True, "requestId": request, "state": "rejected"}
    assert (await meta.use("get_task_result", task_id=asking)).own == ["cancel"]
    assert (await meta.use("get_task_result", task_id=sampling)).own[0].startswith("error ")


async def test_p_032_all_questions_of_all_servers_are_listed(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta = Meta(await place.memory())
        for server in ("one", "two"):
            for word in ("first?", "second?"):
                await meta.task("ask", server=server, questions=[word])
                await meta.question(server=server, message=word)
        asked = [(each["server"], each["message"]) for each in await _asked(meta)]
        assert asked == [("one", "first?"), ("one", "second?"), ("two", "first?"), ("two", "second?")]
        only = (await meta.use("get_elicitations", server="two")).said["elicitations"]
        assert [each["server"] for each in only] == ["two", "two"]


async def test_p_035_a_question_shows_with_every_task_of_its_server_and_is_answered_once(
    meta: Meta, one: Upstream
) -> None:
    bystander = await meta.task("work", name="bystander")
    asking = await meta.task("ask", questions=["whose?"])
    question = await meta.question()
    for task in (bystander, asking):
        shown = (await meta.use("get_task", task_id=task)).said["pending_elicitations_for_server"]
        assert [each["requestId"] for each in shown] == [question]
    await _respond(meta, question, "mine")
    for task in (bystander, asking):
        answer = await meta.use("get_task", task_id=task)
        assert answer.said["pending_elicitations_for_server"] == []
        assert answer.pending is None
    assert (await meta.use("get_task_result", task_id=asking)).own == ["mine"]


async def test_p_035_of_two_who_answer_at_once_one_does(meta: Meta) -> None:
    task = await meta.task("ask", questions=["who?"])
    question = await meta.question()
    answers = await asyncio.gather(
        *(
            meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": word})
            for word in "abcd"
        )
    )
    assert sum(answer.raw["isError"] for answer in answers) == 3
    assert (await meta.use("get_task_result", task_id=task)).own[0] in "abcd"


async def test_p_037_a_call_may_ask_again_and_again(meta: Meta) -> None:
    words = [f"{number}?" for number in range(5)]
    task = await meta.task("ask", questions=words)
    for word in words:
        question = await meta.question(message=word)
        assert (await meta.use("get_task", task_id=task)).said["task"]["status"] == "working"
        await _respond(meta, question, word)
    assert (await meta.use("get_task_result", task_id=task)).own == [" and ".join(words)]


async def test_p_052_what_is_answered_is_passed_on_and_kept_nowhere(
    one: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "coatcheck"):
        async with proxying([one], store=f"sqlite:///{tmp_path}/proxy.db") as place:
            meta = Meta(await place.memory())
            task = await meta.task("ask_quietly", question="password?")
            await _respond(meta, await meta.question(), SECRET)
            await meta.settled(task)
            (answer,) = one.answers
            assert answer.data.value == SECRET
            for tool in ("get_logs", "get_notifications", "list_tasks", "get_elicitations"):
                assert SECRET not in str((await meta.use(tool)).raw)
            assert SECRET not in str(meta.told)
        kept = _contents(tmp_path)
        assert b"ask_quietly" in kept
        assert SECRET.encode() not in kept
    assert not [record for record in caplog.records if record.name == "coatcheck" and SECRET in record.getMessage()]


def _contents(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_p_053_an_answer_that_does_not_fit_is_refused_and_the_question_stays(meta: Meta) -> None:
    task = await meta.task("ask", questions=["who?"])
    question = await meta.question()
    misfits: list[dict[str, Any]] = [{}, {"content": {}}, {"content": {"value": 7}}, {"content": {"other": "word"}}]
    for given in misfits:
        refused = await meta.use("respond_to_elicitation", request_id=question, action="accept", **given)
        assert refused.error["code"] == "TOOL_ERR_INVALID_ARGUMENT"
        assert [each["requestId"] for each in await _asked(meta)] == [question]
    await _respond(meta, question, "a word")
    assert (await meta.use("get_task_result", task_id=task)).own == ["a word"]


async def test_p_053_only_what_is_accepted_has_content(meta: Meta) -> None:
    await meta.task("ask", questions=["who?"])
    question = await meta.question()
    for action in ("decline", "cancel"):
        refused = await meta.use("respond_to_elicitation", request_id=question, action=action, content={"value": "x"})
        assert refused.error["code"] == "TOOL_ERR_INVALID_ARGUMENT"
    assert len(await _asked(meta)) == 1


async def test_p_053_a_request_of_one_kind_is_not_answered_as_another(meta: Meta) -> None:
    await meta.task("ask", questions=["who?"])
    question = await meta.question()
    for tool, more in (("respond_to_sampling", {"content": "x"}), ("cancel_sampling_request", {})):
        refused = await meta.use(tool, request_id=question, **more)
        assert refused.error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"
    assert len(await _asked(meta)) == 1


async def test_a_call_that_ended_without_an_answer_leaves_no_question(meta: Meta, one: Upstream) -> None:
    task = await meta.task("ask_in_vain", name="impatient")
    await meta.question()
    one.moments.open("impatient")
    assert (await meta.settled(task))["status"] == "completed"
    async with asyncio.timeout(PATIENCE):
        while await _asked(meta):
            await meta.use("await_activity", timeout_ms=100)
