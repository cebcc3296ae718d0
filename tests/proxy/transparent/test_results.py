"""What passes through the proxy, passes as it is: results, errors, what is said beside them, what clients can do."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.proxy.gateway import Gateway
from tests.proxy.transparent.conftest import TASKS, Bench, Connect, in_memory
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, Refusal
from tests.sdk.peer import Peer

pytestmark = pytest.mark.anyio
_INFO = "io.modelcontextprotocol/serverInfo"

RESULTS: Json = {
    "text": {"content": [{"type": "text", "text": "a\u2028ü\x00"}]},
    "nothing": {"content": []},
    "an error": {"content": [{"type": "text", "text": "No"}], "isError": True},
    "structured": {"content": [], "structuredContent": {"a": [1, 2.5, None, {"b": "c"}], "big": 2**53, "e": 1e300}},
    "meta": {"content": [], "_meta": {"example.com/mark": {"deep": [1, None]}}},
    "annotations": {
        "content": [
            {"type": "text", "text": "a", "annotations": {"priority": 0.5, "audience": ["user"]}, "_meta": {"a": 1}},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "mem://one", "text": "one"}},
            {"type": "resource_link", "uri": "mem://two", "name": "two"},
        ]
    },
    "unknown fields": {"content": [{"type": "text", "text": "a", "example": 1}], "example.com/new": [1]},
}
ERRORS: Json = {
    "plain": {"code": -32050, "message": "It is refused"},
    "with data": {"code": -32050, "message": "It is refused", "data": {"why": [1, None, "ü"]}},
    "of the protocol": {"code": -32602, "message": "Invalid params", "data": "a"},
    "about cancelling": {"code": -32800, "message": "Cancelled"},
    "that looks like ours": {"code": -32000, "message": "Connection closed"},
}


def bare(result: Json) -> Json:
    """Return a result without what frames it in one generation."""
    left = {name: value for name, value in result.items() if name != "resultType"}
    meta = {name: value for name, value in left.pop("_meta", {}).items() if name != _INFO}
    return {**left, "_meta": meta} if meta else left


async def called(peer: Peer, **params: Any) -> Json:
    return await peer.ask("tools/call", {"name": "up__do", "arguments": {}, **params})


async def test_a_result_is_returned_as_it_is(gateway: Gateway, puppet: Puppet, version: str, connect: Connect) -> None:
    async def do(exchange: Exchange) -> Json:
        return RESULTS[exchange.arguments["what"]]

    puppet.tools["do"] = do
    async with connect(gateway, version) as peer:
        for what in (*RESULTS, *RESULTS):  # also when all there is to know is known
            assert bare((await called(peer, arguments={"what": what}))["result"]) == RESULTS[what]


async def test_an_error_is_told_word_for_word(gateway: Gateway, puppet: Puppet, version: str, connect: Connect) -> None:
    async def do(exchange: Exchange) -> Json:
        raise Refusal(ERRORS[exchange.arguments["what"]])

    puppet.tools["do"] = do
    async with connect(gateway, version) as peer:
        for what in (*ERRORS, *ERRORS):
            assert (await called(peer, arguments={"what": what}))["error"] == ERRORS[what]
    assert len(puppet.of("tools/call")) == 2 * len(ERRORS)


async def test_what_a_caller_says_beside_the_arguments_is_passed_on(
    gateway: Gateway, puppet: Puppet, version: str, connect: Connect
) -> None:
    said = {"example.com/trace": {"a": [1]}, "traceparent": "00-1-2-03"}
    arguments = {"word": "a", "deep": [None, {"b": 2.5}]}
    async with connect(gateway, version) as peer:
        for _ in range(2):
            await peer.result("tools/call", {"name": "up__echo", "arguments": arguments, "_meta": said})
    for sent in puppet.of("tools/call"):
        assert said.items() <= sent.params["_meta"].items()
        assert (sent.params["name"], sent.params["arguments"]) == ("echo", arguments)
        assert not any(name.startswith("coatcheck/upstream") for name in sent.params["_meta"])


async def test_what_a_caller_says_of_itself_is_not_passed_on_as_the_proxys_own(
    gateway: Gateway, puppet: Puppet, version: str
) -> None:
    async with in_memory(gateway, version) as peer:
        await peer.call("up__echo", word="a")
    hello = puppet.sent[0] if puppet.versions == (NEWER,) else puppet.of("initialize")[0]
    info = hello.params.get("clientInfo") or hello.params["_meta"]["io.modelcontextprotocol/clientInfo"]
    assert info["name"] == "coatcheck-proxy"


CAPABILITIES: Json = {
    "nothing": {},
    "everything": {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": True}},
    "forms": {"elicitation": {}},
}


@pytest.mark.parametrize("what", CAPABILITIES)
async def test_a_server_is_told_what_the_client_can_do_and_nothing_else(
    what: str, gateway: Gateway, puppet: Puppet, version: str
) -> None:
    async with in_memory(gateway, version, capabilities={**CAPABILITIES[what], "experimental": {"a": {}}}) as peer:
        await peer.call("up__echo", word="a")
    if puppet.versions == (OLDER,):
        told = puppet.of("initialize")[0].params["capabilities"]
    else:
        told = puppet.of("tools/call")[0].params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert {name: value for name, value in told.items() if name not in ("tasks", "extensions")} == CAPABILITIES[what]


async def test_clients_that_can_do_different_things_do_not_share_a_connection(bench: Bench, puppet: Puppet) -> None:
    await bench.serve("up", puppet)
    gateway = bench.proxy()
    async with in_memory(gateway, NEWER) as one, in_memory(gateway, NEWER, capabilities={"sampling": {}}) as two:
        await one.call("up__echo", word="a")
        await two.call("up__echo", word="a")
        assert len(puppet.sessions) == 2
        async with in_memory(gateway, NEWER, capabilities={**TASKS}) as three:
            await three.call("up__echo", word="a")
        assert len(puppet.sessions) == 2


async def test_a_tool_of_no_server_is_unknown(gateway: Gateway, version: str, connect: Connect) -> None:
    async with connect(gateway, version) as peer:
        answer = await peer.ask("tools/call", {"name": "nowhere__do", "arguments": {}})
        said = answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]
        assert "nowhere__do" in said


async def test_what_a_server_says_of_a_tool_it_does_not_have_is_passed_on(
    gateway: Gateway, version: str, connect: Connect
) -> None:
    async with connect(gateway, version) as peer:
        error = (await called(peer))["error"]
        assert error["message"] == "Method not found: tools/call"


# Progress and logs


async def test_progress_is_told_to_whoever_asked_for_it(
    gateway: Gateway, puppet: Puppet, version: str, connect: Connect
) -> None:
    async def do(exchange: Exchange) -> Json:
        token = exchange.params["_meta"]["progressToken"]
        for done in (1, 2.5):
            params = {"progressToken": token, "progress": done, "total": 4, "message": f"at {done}"}
            await exchange.notify("notifications/progress", params)
        return RESULTS["text"]

    puppet.tools["do"] = do
    async with connect(gateway, version) as peer:
        assert "result" in await called(peer, _meta={"progressToken": "mine"})
        told = [each.params for each in peer.heard if each.message["method"] == "notifications/progress"]
    assert [(each["progressToken"], each["progress"], each["total"]) for each in told] == [
        ("mine", 1, 4),
        ("mine", 2.5, 4),
    ]
    assert told[-1]["message"] == "at 2.5"


async def test_who_did_not_ask_for_progress_is_not_told(gateway: Gateway, puppet: Puppet, connect: Connect) -> None:
    async def do(exchange: Exchange) -> Json:
        token = exchange.params["_meta"]["progressToken"]
        await exchange.notify("notifications/progress", {"progressToken": token, "progress": 1})
        return RESULTS["text"]

    puppet.tools["do"] = do
    async with connect(gateway, OLDER) as peer:
        await called(peer)
        assert [each for each in peer.heard if each.message["method"] == "notifications/progress"] == []


@pytest.mark.parametrize("puppet", [OLDER], indirect=True)
async def test_logs_are_passed_on_to_clients_with_a_standing_connection(
    gateway: Gateway, puppet: Puppet, connect: Connect
) -> None:
    async with connect(gateway, OLDER) as peer:
        await peer.call("up__echo", word="a")
        await puppet.heard_by(1)
        params = {"level": "warning", "logger": "a", "data": {"b": [1]}}
        puppet.tell("notifications/message", params)
        assert (await peer.hears("notifications/message")).params == params


@pytest.mark.parametrize("puppet", [OLDER], indirect=True)
async def test_the_level_of_logs_is_passed_on(gateway: Gateway, puppet: Puppet, connect: Connect) -> None:
    async with connect(gateway, OLDER) as peer:
        assert await peer.result("logging/setLevel", {"level": "debug"}) == {}
    (sent,) = puppet.of("logging/setLevel")
    assert sent.params == {"level": "debug"}
