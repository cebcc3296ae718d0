"""A call that is not so quick after all is made once, and goes on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from coatcheck.dialects.words import IDEMPOTENCY_KEY
from tests.proxy.quick.callers import Caller, Posted
from tests.proxy.quick.conftest import LongWay, Meet, Serve, both_servers, met, slow
from tests.proxy.upstreams.hosts import PATIENCE
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, Refusal, text

pytestmark = pytest.mark.anyio
TASKS: Json = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
FORM: Json = {"elicitation": {"form": {}}}
QUESTION: Json = {
    "mode": "form",
    "message": "Sure?",
    "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]},
}
DONE = [{"type": "text", "text": "done"}]


@both_servers
async def test_a_call_that_takes_longer_is_held_and_made_once(
    puppet: Puppet, version: str, meet: Meet, long_way: LongWay
) -> None:
    go_on = slow(puppet)
    caller = await meet(version)
    calling = caller.begin_call("slow")
    await long_way.until(1)
    go_on.set()
    assert (await calling.ended()).result["content"] == DONE
    assert len(puppet.of("tools/call")) == 1


@both_servers
async def test_many_that_take_longer_are_each_made_once(
    puppet: Puppet, version: str, meet: Meet, long_way: LongWay
) -> None:
    go_on = asyncio.Event()

    async def work(exchange: Exchange) -> Json:
        await go_on.wait()
        return text(exchange.arguments["word"])

    puppet.tools["slow"] = work
    caller = await meet(version)
    calling = [caller.begin_call("slow", word=f"{number}") for number in range(20)]
    await long_way.until(20)
    go_on.set()
    for number, each in enumerate(calling):
        assert (await each.ended()).result["content"][0]["text"] == f"{number}"
    assert sorted(int(sent.params["arguments"]["word"]) for sent in puppet.of("tools/call")) == list(range(20))


@both_servers
async def test_a_call_that_takes_longer_becomes_a_task_and_is_made_once(
    puppet: Puppet, serve: Serve, long_way: LongWay
) -> None:
    go_on = slow(puppet)
    caller = await met(await serve(promote_after=0.05), puppet, long_way, NEWER, capabilities=TASKS)
    created = (await caller.call("slow")).result
    assert created["resultType"] == "task"
    go_on.set()
    assert (await ended(caller, created["taskId"]))["result"]["content"] == DONE
    assert len(puppet.of("tools/call")) == 1


async def ended(caller: Caller, task_id: str) -> Json:
    async with asyncio.timeout(PATIENCE):
        while True:
            task = (await caller.ask("tasks/get", taskId=task_id))["result"]
            if task["status"] not in ("working", "input_required"):
                return task


@both_servers
async def test_a_call_that_takes_longer_gets_a_ticket_and_is_made_once(
    puppet: Puppet, version: str, serve: Serve, long_way: LongWay
) -> None:
    go_on = slow(puppet)
    caller = await met(await serve(promote_after=0.05), puppet, long_way, version)
    said = (await caller.call("slow")).result["content"][0]["text"]
    ticket = re.search(r'task_id "(.+?)"', said)
    assert ticket, said
    go_on.set()
    collected = await caller.ask("tools/call", name="wait_task", arguments={"task_id": ticket[1]})
    assert collected["result"]["content"] == DONE
    assert len(puppet.of("tools/call")) == 1


@both_servers
async def test_an_error_that_takes_longer_is_told_word_for_word(
    puppet: Puppet, version: str, meet: Meet, long_way: LongWay
) -> None:
    go_on = asyncio.Event()
    error = {"code": -32050, "message": "It is refused", "data": {"why": [1]}}

    async def work(exchange: Exchange) -> Json:
        await go_on.wait()
        raise Refusal(error)

    puppet.tools["slow"] = work
    caller = await meet(version)
    calling = caller.begin_call("slow")
    await long_way.until(1)
    go_on.set()
    assert (await calling.ended()).said["error"] == error
    assert len(puppet.of("tools/call")) == 1


async def test_a_call_that_asks_is_handed_over_and_asked(meet: Meet, puppet: Puppet, version: str) -> None:
    """Of an older server, in the middle of the call."""
    answers: list[Json] = []

    async def work(exchange: Exchange) -> Json:
        answers.append(await exchange.ask("elicitation/create", QUESTION))
        return text("done")

    puppet.versions = (OLDER,)
    puppet.tools["ask"] = work
    caller = await meet(version, capabilities=FORM)
    result = await (asked_in_rounds if caller.is_modern else asked_on_the_stream)(caller)
    assert result["content"] == DONE
    assert [each["result"] for each in answers] == [{"action": "accept", "content": {"sure": True}}]
    assert len(puppet.of("tools/call")) == 1


async def asked_on_the_stream(caller: Caller) -> Json:
    calling = caller.begin_call("ask")
    await heard(calling, lambda: b"elicitation/create" in calling.answer.body)
    (question,) = (each for each in calling.answer.messages if each.get("method") == "elicitation/create")
    assert question["params"]["message"] == "Sure?"
    answer = {"action": "accept", "content": {"sure": True}}
    told = await caller.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
    assert told.status == 202
    return (await calling.ended()).result


async def asked_in_rounds(caller: Caller) -> Json:
    first = (await caller.call("ask")).result
    assert first["resultType"] == "input_required"
    (key,) = first["inputRequests"]
    assert first["inputRequests"][key]["params"]["message"] == "Sure?"
    answers = {key: {"action": "accept", "content": {"sure": True}}}
    more = {"inputResponses": answers, "requestState": first["requestState"]}
    return (await caller.ask("tools/call", name="up__ask", arguments={}, **more))["result"]


@both_servers
@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
async def test_a_caller_that_hangs_up_early_does_no_harm(
    puppet: Puppet, version: str, is_long: bool, meet: Meet, long_way: LongWay
) -> None:
    go_on = slow(puppet)
    caller = await meet(version)
    calling = caller.begin_call("slow", is_long=is_long)
    await puppet.until(lambda: puppet.of("tools/call"))
    calling.hang_up()
    await long_way.until(1)
    go_on.set()
    await calling.ended()
    assert (await caller.call("echo", word="on")).result["content"][0]["text"] == "on"
    assert len(puppet.of("tools/call")) == 2


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
async def test_a_cancelled_call_is_cancelled_however_early(puppet: Puppet, is_long: bool, meet: Meet) -> None:
    slow(puppet)
    caller = await meet(OLDER, capabilities={"tasks": {}})
    calling = caller.begin_call("slow", number="mine", is_long=is_long)
    await puppet.until(lambda: puppet.of("tools/call"))
    params = {"requestId": "mine"}
    told = await caller.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    assert told.status == 202
    try:
        async with asyncio.timeout(PATIENCE):
            await puppet.until(lambda: puppet.gone)
    finally:
        calling.hang_up()
        await calling.ended()


@pytest.mark.usefixtures("patient")
async def test_what_a_server_logs_is_told_on_both_ways(puppet: Puppet, meet: Meet, long_way: LongWay) -> None:
    async def work(exchange: Exchange) -> Json:
        await exchange.notify("notifications/message", {"level": "error", "data": exchange.arguments["what"]})
        return text("done")

    puppet.versions = (OLDER,)
    puppet.tools["log"] = work
    caller = await meet(OLDER)
    standing = Posted(caller.app, "GET", {**caller.headers(), "accept": "text/event-stream"}, b"")
    await heard(standing, lambda: standing.answer.status)
    for number, is_long in enumerate((False, True)):
        await caller.call("log", is_long=is_long, what=f"careful {number}")
        assert long_way.calls == number
    await heard(standing, lambda: b"careful 0" in standing.answer.body and b"careful 1" in standing.answer.body)
    standing.hang_up()
    await standing.ended()


async def heard(posted: Posted, is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await posted.news()


async def test_a_key_is_a_key_however_it_is_spelt(puppet: Puppet, meet: Meet) -> None:
    caller = await meet(NEWER)
    call: Json = {"name": "up__echo", "arguments": {"word": "a"}, "_meta": {IDEMPOTENCY_KEY: "once"}}
    for spelt in (IDEMPOTENCY_KEY, IDEMPOTENCY_KEY.replace("Key", "\\u004bey")):
        message = caller.message("tools/call", call)
        body = json.dumps(message).encode().replace(IDEMPOTENCY_KEY.encode(), spelt.encode())
        assert (await caller.post(body, {"mcp-name": "up__echo"})).result["content"][0]["text"] == "a"
    assert len(puppet.of("tools/call")) == 1
