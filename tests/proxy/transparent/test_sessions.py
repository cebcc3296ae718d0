"""Each client has connections of its own, made when they are needed and closed when nobody needs them any longer."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from coatcheck.proxy.gateway import Gateway
from tests.proxy.transparent.conftest import TASKS, Bench, in_memory, make_puppet, serving
from tests.proxy.transparent.test_lists import listen
from tests.proxy.upstreams.hosts import PATIENCE
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, text
from tests.sdk.peer import Client, Peer
from tests.sdk.transports import another

pytestmark = pytest.mark.anyio
IDLE = timedelta(seconds=0.5)
FORMS: Json = {"elicitation": {"form": {}}}
older = pytest.mark.parametrize("puppet", [OLDER], indirect=True, ids=["server-2025"])


def add_gate(puppet: Puppet) -> asyncio.Event:
    """Add a tool that ends when the event is set."""
    may_end = asyncio.Event()

    async def gate(exchange: Exchange) -> Json:
        await may_end.wait()
        return text("through")

    puppet.tools["gate"] = gate
    return may_end


# One for each


async def test_only_the_servers_that_are_used_are_connected(bench: Bench, version: str) -> None:
    used, unused = make_puppet(OLDER), make_puppet(OLDER)
    await bench.serve("used", used)
    await bench.serve("unused", unused)
    async with in_memory(bench.proxy(), version) as peer:
        assert used.sent == []
        for _ in range(3):
            await peer.call("used__echo", word="a")
        assert len(used.sessions) == 1
    assert unused.sent == []


@older
async def test_two_sessions_of_2025_over_http_do_not_share_a_connection(gateway: Gateway, puppet: Puppet) -> None:
    async with serving(gateway) as app, another(app, Client(OLDER)) as one, another(app, Client(OLDER)) as two:
        await one.stand_by()
        await two.stand_by()
        for peer in (one, two, one):
            await peer.call("up__echo", word="a")
        assert len(puppet.sessions) == 2
        await puppet.heard_by(2)
        puppet.tell("notifications/message", {"level": "info", "data": "for one"}, puppet.sessions[0])
        puppet.tell("notifications/message", {"level": "info", "data": "for two"}, puppet.sessions[1])
        heard = [(await peer.hears("notifications/message")).params["data"] for peer in (one, two)]
        assert heard == ["for one", "for two"]


async def test_all_connections_are_closed_with_the_proxy(gateway: Gateway, puppet: Puppet, version: str) -> None:
    async with serving(gateway) as app, another(app, Client(version)) as peer:
        await peer.call("up__echo", word="a")
        assert puppet.left == []
    if puppet.versions == (OLDER,):
        assert puppet.left == puppet.sessions


# Idle sessions


@older
async def test_a_session_nobody_uses_is_closed_and_made_again_when_it_is_needed(
    bench: Bench, puppet: Puppet, version: str
) -> None:
    await bench.serve("up", puppet)
    gateway = bench.proxy(idle=IDLE)
    async with serving(gateway) as app, another(app, Client(version)) as peer:
        await peer.call("up__echo", word="a")
        await puppet.until(lambda: puppet.left == puppet.sessions[:1])
        await peer.call("up__echo", word="a")
        assert len(puppet.sessions) == 2


@older
async def test_a_session_in_which_a_call_runs_is_not_closed(bench: Bench, puppet: Puppet, version: str) -> None:
    may_end = add_gate(puppet)
    await bench.serve("up", puppet)
    gateway = bench.proxy(idle=IDLE)
    async with serving(gateway) as app, another(app, Client(version)) as peer, another(app, Client(OLDER)) as other:
        calling = peer.begin("tools/call", {"name": "up__gate", "arguments": {}})
        await puppet.until(lambda: puppet.of("tools/call"))
        await other.call("up__echo", word="a")
        await puppet.until(lambda: puppet.left)  # that of the other, which was begun later
        assert puppet.left == puppet.sessions[1:]
        may_end.set()
        assert (await calling)["result"]["content"][0]["text"] == "through"
        await puppet.until(lambda: set(puppet.left) == set(puppet.sessions))


@older
async def test_a_session_whose_client_listens_is_not_closed(bench: Bench, puppet: Puppet, version: str) -> None:
    await bench.serve("up", puppet)
    gateway = bench.proxy(idle=IDLE)
    async with serving(gateway) as app, another(app, Client(version)) as peer, another(app, Client(OLDER)) as other:
        if version == OLDER:
            await peer.stand_by()
            await peer.result("resources/subscribe", {"uri": "up+mem://one"})
        else:
            await listen(peer, resourceSubscriptions=["up+mem://one"])
        await puppet.until(lambda: puppet.of("resources/subscribe"))
        await other.call("up__echo", word="a")
        await puppet.until(lambda: puppet.left)
        assert puppet.left == puppet.sessions[1:]  # that of the other, which was begun later
        puppet.tell("notifications/resources/updated", {"uri": "mem://one"})
        await peer.hears("notifications/resources/updated")


@older
async def test_a_task_goes_on_when_its_client_has_left(bench: Bench, puppet: Puppet) -> None:
    may_end = add_gate(puppet)
    await bench.serve("up", puppet)
    gateway = bench.proxy(promote_after=0.05, idle=IDLE)
    async with serving(gateway) as app:
        async with another(app, Client(NEWER, capabilities=TASKS)) as peer:
            answer = await peer.call("up__gate")
            assert answer["resultType"] == "task"
        async with another(app, Client(OLDER)) as other:
            await other.call("up__echo", word="a")
            await puppet.until(lambda: puppet.left)
        may_end.set()
        async with follower(app, answer["taskId"]) as peer:
            result = await _collected(peer, answer["taskId"])
        assert result["content"][0]["text"] == "through"
    assert len(puppet.of("tools/call")) == 2


def follower(app: Any, task_id: str) -> AbstractAsyncContextManager[Peer]:
    """Connect a client that asks for one task, whose name stands in a header."""
    return another(app, Client(NEWER, capabilities=TASKS, headers={"mcp-name": task_id}))


async def _collected(peer: Peer, task_id: str) -> Json:
    async with asyncio.timeout(PATIENCE):
        while (task := await peer.result("tasks/get", {"taskId": task_id}))["status"] == "working":
            pass
    return task["result"]


# Who is asked


def add_asker(puppet: Puppet, number: int) -> None:
    """Add a tool that asks as soon as so many calls of it have been made."""
    came: list[str] = []
    all_came = asyncio.Event()

    async def ask(exchange: Exchange) -> Json:
        who = exchange.arguments["who"]
        came.append(who)
        if len(came) == number:
            all_came.set()
        await all_came.wait()
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        answer = await exchange.ask("elicitation/create", {"message": f"Are you {who}?", "requestedSchema": schema})
        return text(f"{who}: {answer['result']['content']['name']}" if "result" in answer else str(answer["error"]))

    puppet.tools["ask"] = ask


@older
async def test_strangers_do_not_get_each_others_questions(gateway: Gateway, puppet: Puppet) -> None:
    add_asker(puppet, 3)
    names = ("Ann", "Bob", "Cid")
    async with serving(gateway) as app, AsyncExitStack() as stack:
        answers: dict[str, Any] = {}
        for name in names:
            client = Client(NEWER, capabilities=FORMS)
            peer = await stack.enter_async_context(another(app, client))
            answers[name] = (peer, peer.begin("tools/call", {"name": "up__ask", "arguments": {"who": name}}))
        for name, (peer, calling) in answers.items():
            async with asyncio.timeout(PATIENCE):
                result = (await calling)["result"]
            assert result["resultType"] == "input_required"
            ((key, question),) = result["inputRequests"].items()
            assert question["params"]["message"] == f"Are you {name}?"
            response = {key: {"action": "accept", "content": {"name": f"{name} herself"}}}
            again = {"name": "up__ask", "arguments": {"who": name}, "inputResponses": response}
            done = await peer.result("tools/call", {**again, "requestState": result["requestState"]})
            assert done["content"][0]["text"] == f"{name}: {name} herself"
    assert len(puppet.of("tools/call")) == 3


@older
async def test_a_question_reaches_the_client_in_whose_call_it_is_asked(gateway: Gateway, puppet: Puppet) -> None:
    add_asker(puppet, 2)
    async with serving(gateway) as app, AsyncExitStack() as stack:
        calls: list[Any] = []
        for name in ("Ann", "Bob"):
            answers = {"elicitation/create": {"action": "accept", "content": {"name": name}}}
            client = Client(OLDER, capabilities=FORMS, answers=answers)
            peer = await stack.enter_async_context(another(app, client))
            calls.append((name, peer, peer.begin("tools/call", {"name": "up__ask", "arguments": {"who": name}})))
        for name, peer, calling in calls:
            async with asyncio.timeout(PATIENCE):
                assert (await calling)["result"]["content"][0]["text"] == f"{name}: {name}"
            asked = [each.params["message"] for each in peer.heard if each.message["method"] == "elicitation/create"]
            assert asked == [f"Are you {name}?"]
