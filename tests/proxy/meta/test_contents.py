"""The tools that show what servers have, what they said, and what the proxy is made of; and timers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coatcheck.proxy.diagrams import ALIAS_URI, DIAGRAMS_URI, diagrams
from tests.matrix.peers import PATIENCE
from tests.processes import free_port
from tests.proxy.meta.rows import TOOLS
from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import Upstream

pytestmark = pytest.mark.anyio

FIVE = [
    "proxy_task_states",
    "pending_elicitation_states",
    "pending_sampling_states",
    "tool_call_lifecycle",
    "entity_relationships",
]


async def test_p_082_these_are_the_tools_there_are(meta: Meta) -> None:
    tools = await meta.talk.tools()
    assert sorted(tools) == sorted(TOOLS)
    assert all(tool["description"] for tool in tools.values())
    assert not any("ctx" in tool["inputSchema"]["properties"] for tool in tools.values())


async def test_p_082_tools_of_all_servers_are_listed_with_their_schemas(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta = Meta(await place.memory())
        tools = (await meta.use("list_tools")).said["tools"]
        assert {tool["server"] for tool in tools} == {"one", "two"}
        (work,) = [tool for tool in tools if (tool["server"], tool["name"]) == ("two", "work")]
        assert work["description"] == "Begin, wait at the gate, end."
        assert work["inputSchema"]["required"] == ["name"]
        only = (await meta.use("list_tools", server="one")).said["tools"]
        assert only == [tool for tool in tools if tool["server"] == "one"]


async def test_p_082_tools_are_found_by_a_regular_expression(meta: Meta) -> None:
    wanted = {"^ask": {"ask", "ask_quietly", "ask_in_vain"}, "AT THE GATE": {"work"}, "^(echo|fail)$": {"echo", "fail"}}
    for pattern, found in wanted.items():
        tools = (await meta.use("list_tools", pattern=pattern)).said["tools"]
        assert {tool["name"] for tool in tools} == found


async def test_p_082_a_server_that_is_down_hides_nothing_of_the_others(one: Upstream) -> None:
    lost = Upstream("lost")
    lost.port = free_port()
    async with proxying([lost, one]) as place:
        meta = Meta(await place.memory())
        for tool in ("list_tools", "list_resources", "list_resource_templates", "list_prompts"):
            said = (await meta.use(tool)).said
            assert [each["server"] for each in said.pop("unavailable")] == ["lost"]
            (items,) = said.values()
            assert items
            refused = await meta.use(tool, server="lost")
            assert refused.error["code"] in ("TOOL_ERR_SERVER_UNREACHABLE", "TOOL_ERR_SERVER_RECONNECTING")


async def test_p_082_resources_are_listed_and_read(meta: Meta) -> None:
    (resource,) = (await meta.use("list_resources")).said["resources"]
    assert {"server": "one", "uri": "memo://greeting", "name": "greeting"}.items() <= resource.items()
    (template,) = (await meta.use("list_resource_templates")).said["resource_templates"]
    assert {"server": "one", "uriTemplate": "memo://people/{name}"}.items() <= template.items()
    for uri, text in (("memo://greeting", "hello"), ("memo://people/Ada", "hello Ada")):
        (content,) = (await meta.use("read_resource", server="one", uri=uri)).said["contents"]
        assert (content["uri"], content["text"]) == (uri, text)
    refused = await meta.use("read_resource", server="one", uri="memo://nothing")
    assert refused.error["code"] == "TOOL_ERR_UPSTREAM"


async def test_p_082_prompts_are_listed_and_filled_in(meta: Meta) -> None:
    (prompt,) = (await meta.use("list_prompts")).said["prompts"]
    assert (prompt["server"], prompt["name"]) == ("one", "greet")
    filled = (await meta.use("get_prompt", server="one", name="greet", arguments={"name": "Ada"})).said
    assert filled["messages"] == [{"role": "user", "content": {"type": "text", "text": "Greet Ada"}}]


async def test_p_082_a_resource_is_subscribed_to_at_its_server(meta: Meta, one: Upstream) -> None:
    subscribed = await meta.use("subscribe_resource", server="one", uri="memo://greeting")
    assert subscribed.said["success"] is True
    await meta.execute("tell", uri="memo://greeting")
    told = await meta.until("notification", method="notifications/resources/updated")
    assert told["data"]["params"] == {"uri": "memo://greeting"}
    assert (await meta.use("unsubscribe_resource", server="one", uri="memo://greeting")).said["success"] is True
    assert one.subscriptions == ["+memo://greeting", "-memo://greeting"]


async def test_p_082_subscribing_twice_is_subscribing(meta: Meta, one: Upstream) -> None:
    await meta.execute("echo", word="connected")
    for tool in ("subscribe_resource", "subscribe_resource", "unsubscribe_resource"):
        await meta.use(tool, server="one", uri="memo://greeting")
    assert one.subscriptions[-1] == "-memo://greeting"


async def test_p_082_notifications_can_be_read_again(meta: Meta) -> None:
    await meta.execute("tell", uri="memo://greeting")
    await meta.execute("tell_of_tools")
    await meta.until("notification", method="notifications/tools/list_changed")
    for _ in range(2):
        told = (await meta.use("get_notifications")).said["notifications"]
        assert [each["method"] for each in told] == [
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        ]
        assert {"server": "one", "params": {"uri": "memo://greeting"}}.items() <= told[0].items()
    assert len((await meta.use("get_notifications", limit=1)).said["notifications"]) == 1
    assert (await meta.use("get_notifications", server="two")).said["notifications"] == []


async def test_p_073_logs_are_shown_on_request_only(meta: Meta) -> None:
    for level in ("debug", "warning", "error"):
        answer = await meta.execute("log", level=level, words=[level])
        assert answer.own == ["logged"]
    async with asyncio.timeout(PATIENCE):  # they come on a stream of their own
        while len(logs := (await meta.use("get_logs")).said["logs"]) < 3:
            await meta.talk.ask("ping")
    assert [(each["level"], each["data"]) for each in logs] == [(word, word) for word in ("debug", "warning", "error")]
    assert {"server": "one", "logger": "tests", "source": "protocol"}.items() <= logs[0].items()
    severe = (await meta.use("get_logs", level="warning")).said["logs"]
    assert [each["level"] for each in severe] == ["warning", "error"]
    assert (await meta.use("get_logs", server="two")).said["logs"] == []
    assert [event["type"] for event in meta.told] == ["server_connected"]


async def test_p_073_a_thousand_are_kept_and_a_hundred_shown(meta: Meta) -> None:
    schema = (await meta.talk.tools())["get_logs"]["inputSchema"]["properties"]
    assert (schema["limit"]["default"], schema["limit"]["maximum"]) == (100, 1000)
    assert set(schema) == {"server", "level", "limit"}
    await meta.execute("log", level="info", words=[str(number) for number in range(1_005)])
    async with asyncio.timeout(PATIENCE):  # they come on a stream of their own
        while (logs := (await meta.use("get_logs")).said["logs"])[-1]["data"] != "1004":
            await meta.talk.ask("ping")
    assert [each["data"] for each in logs] == [str(number) for number in range(905, 1_005)]
    everything = (await meta.use("get_logs", limit=1_000)).said["logs"]
    assert [each["data"] for each in everything] == [str(number) for number in range(5, 1_005)]


@pytest.mark.parametrize("uri", [DIAGRAMS_URI, ALIAS_URI])
async def test_p_049_p_050_the_diagrams_are_a_resource(meta: Meta, uri: str) -> None:
    read = await meta.talk.ask("resources/read", uri=uri)
    said = (await meta.use("read_resource", server="one", uri=uri)).said
    for (content,) in (read["contents"], said["contents"]):
        assert (content["uri"], content["mimeType"]) == (uri, "application/json")
        drawn: Any = json.loads(content["text"])
        assert drawn == diagrams()
        assert [diagram["name"] for diagram in drawn["diagrams"]] == FIVE
        assert all(diagram["description"] and diagram["mermaid"] for diagram in drawn["diagrams"])


async def test_p_049_the_diagrams_are_listed(meta: Meta) -> None:
    listed = (await meta.talk.ask("resources/list"))["resources"]
    assert {"uri": DIAGRAMS_URI, "name": "diagrams", "mimeType": "application/json"} in listed


async def test_p_049_the_diagrams_can_be_read_whatever_servers_there_are(meta: Meta) -> None:
    said = (await meta.use("read_resource", server="nowhere", uri=DIAGRAMS_URI)).said
    assert said["contents"][0]["uri"] == DIAGRAMS_URI


async def test_p_085_a_timer_wakes_who_waits(meta: Meta) -> None:
    waiting = meta.begin("await_activity", timeout_ms=60_000)
    timer = (await meta.use("set_timer", duration_ms=1, message="look")).said["timer"]
    answer = await meta.answer(waiting)
    assert answer.said["triggers"] == [{"type": "event", "server": None, "eventType": "timer_expired"}]
    expired = await meta.until("timer_expired")
    assert {"timer_id": timer["timer_id"], "message": "look", "times_expired": 1}.items() <= expired["data"].items()
    assert (await meta.use("list_timers")).said == {"timers": []}


async def test_p_085_a_timer_can_be_looked_at_and_deleted(meta: Meta) -> None:
    timer = (await meta.use("set_timer", duration_ms=60_000, repeat=True)).said["timer"]
    assert {"duration_ms": 60_000, "repeats": True, "message": None, "times_expired": 0}.items() <= timer.items()
    assert (await meta.use("get_timer", timer_id=timer["timer_id"])).said == {"timer": timer}
    assert (await meta.use("list_timers")).said == {"timers": [timer]}
    assert (await meta.use("delete_timer", timer_id=timer["timer_id"])).said["success"] is True
    for tool in ("get_timer", "delete_timer"):
        assert (await meta.use(tool, timer_id=timer["timer_id"])).error["code"] == "TOOL_ERR_TIMER_NOT_FOUND"


async def test_p_085_a_timer_may_go_off_again_and_again(meta: Meta) -> None:
    timer = (await meta.use("set_timer", duration_ms=1_000, repeat=True)).said["timer"]["timer_id"]
    async with asyncio.timeout(PATIENCE):
        for times in (1, 2):
            await meta.until("timer_expired", timer_id=timer, times_expired=times)
    assert (await meta.use("get_timer", timer_id=timer)).said["timer"]["times_expired"] == 2


async def test_p_085_there_are_a_hundred_timers_of_a_day_at_most(meta: Meta) -> None:
    day = 24 * 60 * 60 * 1_000
    for duration in (day + 1, 10**18):
        assert (await meta.use("set_timer", duration_ms=duration)).error["code"] == "TOOL_ERR_INVALID_ARGUMENT"
    answers = await asyncio.gather(*(meta.use("set_timer", duration_ms=day) for _ in range(101)))
    refused = [answer for answer in answers if answer.raw["isError"]]
    assert [answer.error["code"] for answer in refused] == ["TOOL_ERR_INVALID_ARGUMENT"]
    assert len((await meta.use("list_timers")).said["timers"]) == 100
