"""Who calls is who it was: sessions that are there, and sessions that are no more."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.proxy.quick.callers import Caller, Posted
from tests.proxy.quick.conftest import LongWay, Meet, both_servers
from tests.proxy.upstreams.hosts import PATIENCE
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, text

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]
FORM: Json = {"elicitation": {"form": {}}}


async def test_a_session_nobody_knows_is_not_found(puppet: Puppet, meet: Meet) -> None:
    caller = await meet(OLDER)
    caller.session = {"mcp-session-id": "0" * 32}
    for _ in range(2):
        assert (await caller.call("echo", word="a")).status == 404
    assert puppet.of("tools/call") == []


async def test_a_call_outside_of_a_session_is_refused_as_ever(puppet: Puppet, meet: Meet) -> None:
    caller = await meet(OLDER)
    caller.session = {}
    short, long = await caller.call("echo", word="a"), await caller.call("echo", word="a", is_long=True)
    assert (short.status, short.body) == (long.status, long.body)
    assert puppet.of("tools/call") == []


async def test_a_session_that_was_ended_is_not_found_any_more(puppet: Puppet, meet: Meet, long_way: LongWay) -> None:
    caller, other = await meet(OLDER), await meet(OLDER)
    assert (await caller.call("echo", word="a")).status == 200
    assert long_way.calls == 0
    assert (await caller.leave()).status == 200
    for _ in range(2):
        assert (await caller.call("echo", word="a")).status == 404
    assert (await other.call("echo", word="b")).result["content"][0]["text"] == "b"
    assert len(puppet.of("tools/call")) == 2


async def test_a_session_that_ends_before_a_body_has_come_is_not_found(puppet: Puppet, meet: Meet) -> None:
    caller = await meet(OLDER)
    late = Posted(caller.app, "POST", caller.headers())
    await asyncio.sleep(0)
    assert (await caller.leave()).status == 200
    late.send(json.dumps(caller.message("tools/call", {"name": "up__echo", "arguments": {"word": "a"}})).encode())
    assert (await late.ended()).status == 404
    assert puppet.of("tools/call") == []


async def test_a_caller_that_leaves_before_its_body_has_come_does_no_harm(
    puppet: Puppet, version: str, meet: Meet
) -> None:
    caller = await meet(version)
    for half in (b"", b'{"jsonrpc"'):
        gone = Posted(caller.app, "POST", caller.headers(name="up__echo"))
        if half:
            gone.send(half, more=True)
        gone.hang_up()
        await gone.ended()
    assert puppet.of("tools/call") == []
    assert (await caller.call("echo", word="a")).status == 200


@both_servers
async def test_callers_have_the_servers_sessions_they_have_on_the_long_way(puppet: Puppet, meet: Meet) -> None:
    who: list[tuple[str, Json]] = [(OLDER, {}), (OLDER, {}), (OLDER, FORM), (NEWER, {}), (NEWER, FORM)]
    callers = [await meet(version, capabilities=capabilities) for version, capabilities in who]
    for caller in callers:
        for is_long in (False, True):
            await caller.call("echo", word="a", is_long=is_long)
        short, long = puppet.of("tools/call")
        assert short.session == long.session
        assert capabilities_in(short.params) == capabilities_in(long.params)
        puppet.sent.clear()


def capabilities_in(params: Json) -> Json | None:
    return params["_meta"].get("io.modelcontextprotocol/clientCapabilities")


@both_servers
async def test_callers_that_can_do_different_things_share_no_session(puppet: Puppet, version: str, meet: Meet) -> None:
    plain, asked = await meet(version), await meet(version, capabilities=FORM)
    for caller in (plain, asked):
        await caller.call("echo", word="a")
    first, second = puppet.of("tools/call")
    if puppet.versions == (OLDER,):
        assert first.session != second.session
    else:
        assert "elicitation" not in (capabilities_in(first.params) or {})
        assert "elicitation" in (capabilities_in(second.params) or {})


async def test_a_question_goes_to_the_caller_whose_call_it_is_of(puppet: Puppet, meet: Meet) -> None:
    answers: dict[str, Json] = {}

    async def ask(exchange: Exchange) -> Json:
        schema: Json = {"type": "object", "properties": {}}
        question: Json = {"mode": "form", "message": exchange.arguments["who"], "requestedSchema": schema}
        answers[exchange.arguments["who"]] = await exchange.ask("elicitation/create", question)
        return text(exchange.arguments["who"])

    puppet.versions = (OLDER,)
    puppet.tools["ask"] = ask
    callers = {name: await meet(OLDER, capabilities=FORM, name=name) for name in ("a", "b", "c")}
    await asyncio.gather(*(answered(caller, name) for name, caller in callers.items()))
    assert {name: each["result"]["content"] for name, each in answers.items()} == {n: {"by": n} for n in callers}


async def answered(caller: Caller, name: str) -> None:
    calling = caller.begin_call("ask", who=name)
    async with asyncio.timeout(PATIENCE):
        while b"elicitation/create" not in calling.answer.body:
            await calling.news()
    (question,) = (each for each in calling.answer.messages if each.get("method") == "elicitation/create")
    assert question["params"]["message"] == name
    result = {"action": "accept", "content": {"by": name}}
    assert (await caller.post({"jsonrpc": "2.0", "id": question["id"], "result": result})).status == 202
    assert (await calling.ended()).result["content"][0]["text"] == name


async def test_five_hundred_at_once_each_have_their_own_answer(puppet: Puppet, version: str, meet: Meet) -> None:
    caller = await meet(version)

    async def call(number: int) -> None:
        answer = await caller.call("echo", word=f"word {number}", number=f"id {number}")
        assert answer.messages[-1]["id"] == f"id {number}"
        assert answer.result["content"] == [{"type": "text", "text": f"word {number}"}]

    await asyncio.gather(*(call(number) for number in range(500)))
    assert len(puppet.of("tools/call")) == 500


async def test_two_calls_with_the_same_id_at_once_each_have_an_answer(puppet: Puppet, meet: Meet) -> None:
    caller = await meet(NEWER)
    one, other = await asyncio.gather(
        caller.call("echo", number="same", word="one"), caller.call("echo", number="same", word="other")
    )
    assert [each.result["content"][0]["text"] for each in (one, other)] == ["one", "other"]
    assert len(puppet.of("tools/call")) == 2


async def test_two_calls_with_the_same_id_in_one_session_are_not_mixed_up(puppet: Puppet, meet: Meet) -> None:
    caller = await meet(OLDER)
    one, other = await asyncio.gather(
        caller.call("echo", number="same", word="one"), caller.call("echo", number="same", word="other")
    )
    assert [each.result["content"][0]["text"] for each in (one, other)] == ["one", "other"]
