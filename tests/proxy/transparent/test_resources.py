"""Resources, prompts and completions of servers: found with and without a prefix, and told of when they change."""

from __future__ import annotations

import pytest

from coatcheck.proxy.gateway import Gateway
from tests.proxy.transparent.conftest import Bench, Connect, in_memory, make_puppet
from tests.proxy.transparent.test_lists import listen
from tests.proxy.transparent.test_results import bare
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, Refusal

pytestmark = pytest.mark.anyio
UPDATED = "notifications/resources/updated"


@pytest.fixture
def puppet(request: pytest.FixtureRequest) -> Puppet:
    version: str = getattr(request, "param", OLDER)
    return reading(make_puppet(version))


def reading(puppet: Puppet) -> Puppet:
    async def read(exchange: Exchange) -> Json:
        uri = exchange.params["uri"]
        if "nowhere" in uri:
            raise Refusal({"code": -32002, "message": "Resource not found", "data": {"uri": uri}})
        blob = {"uri": f"{uri}#part", "mimeType": "image/png", "blob": "AAAA", "_meta": {"a": 1}}
        framed = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return {"contents": [{"uri": uri, "text": "here"}, blob], "_meta": {"example.com/mark": 1}, **framed}

    puppet.replies["resources/read"] = read
    return puppet


both = pytest.mark.parametrize("puppet", [OLDER, NEWER], indirect=True, ids=["server-2025", "server-2026"])


# Reading


@both
async def test_a_resource_is_read_and_shown_under_its_prefixed_uri(
    gateway: Gateway, puppet: Puppet, version: str, connect: Connect
) -> None:
    async with connect(gateway, version) as peer:
        result = bare(await peer.result("resources/read", {"uri": "up+mem://one"}))
    text, blob = result["contents"]
    assert text == {"uri": "up+mem://one", "text": "here"}
    assert blob == {"uri": "up+mem://one#part", "mimeType": "image/png", "blob": "AAAA", "_meta": {"a": 1}}
    assert result["_meta"] == {"example.com/mark": 1}
    assert puppet.of("resources/read")[0].params["uri"] == "mem://one"


@pytest.mark.parametrize(
    "uri", ["mem://one", "mem://12/x", "mem://anywhere"], ids=["listed", "template", "the only one"]
)
async def test_a_resource_can_be_read_by_the_uri_that_stood_in_a_result(
    uri: str, bench: Bench, puppet: Puppet, version: str
) -> None:
    bare_server = Puppet()
    await bench.serve("none", bare_server)
    await bench.serve("up", puppet)
    async with in_memory(bench.proxy(), version) as peer:
        result = await peer.result("resources/read", {"uri": uri})
    assert result["contents"][0] == {"uri": uri, "text": "here"}
    assert bare_server.of("resources/read") == []


async def test_of_several_servers_the_one_that_lists_a_resource_is_asked(bench: Bench, version: str) -> None:
    one, two = reading(make_puppet(OLDER)), reading(make_puppet(NEWER))
    two.lists["resources"] = [{"uri": "mem://two", "name": "two"}]
    one.lists["resourceTemplates"] = [{"uriTemplate": "mem://{anything}", "name": "any"}]
    await bench.serve("one", one)
    await bench.serve("two", two)
    async with in_memory(bench.proxy(), version) as peer:
        await peer.result("resources/read", {"uri": "mem://two"})
        await peer.result("resources/read", {"uri": "mem://three"})
        error = await peer.error("resources/read", {"uri": "other://three"})
    assert [sent.params["uri"] for sent in two.of("resources/read")] == ["mem://two"]
    assert [sent.params["uri"] for sent in one.of("resources/read")] == ["mem://three"]
    assert (error["code"], error["data"]) == (-32002, {"uri": "other://three"})


@both
async def test_an_error_of_reading_is_told_word_for_word(gateway: Gateway, version: str, connect: Connect) -> None:
    async with connect(gateway, version) as peer:
        error = await peer.error("resources/read", {"uri": "up+mem://nowhere"})
    assert error == {"code": -32002, "message": "Resource not found", "data": {"uri": "mem://nowhere"}}


# Being told


@both
async def test_a_change_of_a_resource_is_told_with_its_prefixed_uri(
    gateway: Gateway, puppet: Puppet, version: str, connect: Connect
) -> None:
    async with connect(gateway, version) as peer:
        if version == OLDER:
            assert await peer.result("resources/subscribe", {"uri": "up+mem://one"}) == {}
        else:
            await listen(peer, resourceSubscriptions=["up+mem://one"])
        await _is_subscribed(puppet)
        puppet.tell(UPDATED, {"uri": "mem://one"})
        assert (await peer.hears(UPDATED)).params["uri"] == "up+mem://one"


@both
async def test_who_does_not_want_to_be_told_any_longer_is_not(gateway: Gateway, puppet: Puppet) -> None:
    async with in_memory(gateway, OLDER) as peer:
        await peer.result("resources/subscribe", {"uri": "up+mem://one"})
        await _is_subscribed(puppet)
        assert await peer.result("resources/unsubscribe", {"uri": "up+mem://one"}) == {}
        if puppet.versions == (OLDER,):
            assert [sent.params for sent in puppet.of("resources/unsubscribe")] == [{"uri": "mem://one"}]
        else:
            await puppet.until(lambda: "resourceSubscriptions" not in _wanted(puppet)[-1])


@both
async def test_subscriptions_are_made_again_when_a_server_comes_back(
    bench: Bench, puppet: Puppet, connect: Connect
) -> None:
    host = await bench.serve("up", puppet)
    async with connect(bench.proxy(), OLDER) as peer:
        await peer.result("resources/subscribe", {"uri": "up+mem://one"})
        await _is_subscribed(puppet)
        before = len(puppet.sessions)
        puppet.forgotten.update(puppet.sessions)
        await host.stop()
        puppet.sent.clear()
        await host.start()
        await peer.result("prompts/list")
        await peer.result("resources/read", {"uri": "up+mem://one"})
        if puppet.versions == (OLDER,):
            assert len(puppet.sessions) == before + 1
        await _is_subscribed(puppet)
        puppet.tell(UPDATED, {"uri": "mem://one"})
        assert (await peer.hears(UPDATED)).params["uri"] == "up+mem://one"


async def _is_subscribed(puppet: Puppet) -> None:
    if puppet.versions == (OLDER,):
        await puppet.until(lambda: puppet.of("resources/subscribe"))
        assert puppet.of("resources/subscribe")[-1].params == {"uri": "mem://one"}
    else:
        await puppet.until(
            lambda: {"mem://one"} in [set(each.get("resourceSubscriptions", ())) for each in _wanted(puppet)]
        )
    await puppet.heard_by(1)


def _wanted(puppet: Puppet) -> list[Json]:
    """Return what a server of 2026-07-28 was asked to tell of, each time."""
    return [sent.params["notifications"] for sent in puppet.of("subscriptions/listen")]


# Prompts and completions


@both
async def test_a_prompt_is_passed_through(gateway: Gateway, puppet: Puppet, version: str, connect: Connect) -> None:
    messages = [{"role": "user", "content": {"type": "text", "text": "Hello"}}]

    async def get(exchange: Exchange) -> Json:
        return {"description": "A greeting", "messages": messages, "resultType": "complete"}

    puppet.replies["prompts/get"] = get
    async with connect(gateway, version) as peer:
        result = await peer.result("prompts/get", {"name": "up__greet", "arguments": {"whom": "you"}})
        assert bare(result) == {"description": "A greeting", "messages": messages}
        error = await peer.error("prompts/get", {"name": "nowhere__greet"})
        assert error["code"] == -32602
    sent = puppet.of("prompts/get")[0].params
    assert (sent["name"], sent["arguments"]) == ("greet", {"whom": "you"})


@both
@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"type": "ref/prompt", "name": "up__greet"}, {"type": "ref/prompt", "name": "greet"}),
        ({"type": "ref/resource", "uri": "up+mem://{number}/x"}, {"type": "ref/resource", "uri": "mem://{number}/x"}),
    ],
    ids=["prompt", "template"],
)
async def test_a_completion_is_passed_through(
    asked: Json, sent: Json, gateway: Gateway, puppet: Puppet, version: str
) -> None:
    completion = {"values": ["1", "12"], "total": 3, "hasMore": True}

    async def complete(exchange: Exchange) -> Json:
        return {"completion": completion, "resultType": "complete"}

    puppet.replies["completion/complete"] = complete
    argument, context = {"name": "number", "value": "1"}, {"arguments": {"a": "b"}}
    async with in_memory(gateway, version) as peer:
        asking = {"ref": asked, "argument": argument, "context": context}
        assert bare(await peer.result("completion/complete", asking)) == {"completion": completion}
        unknown = {"ref": {"type": "ref/prompt", "name": "nowhere__a"}, "argument": argument}
        assert (await peer.error("completion/complete", unknown))["code"] == -32602
    params = puppet.of("completion/complete")[0].params
    assert (params["ref"], params["argument"], params["context"]) == (sent, argument, context)


@both
async def test_a_server_that_is_not_there_is_named(
    bench: Bench, puppet: Puppet, version: str, connect: Connect
) -> None:
    host = await bench.serve("up", puppet)
    await host.stop()
    async with connect(bench.proxy(), version) as peer:
        asking: dict[str, Json] = {
            "resources/read": {"uri": "up+mem://one"},
            "prompts/get": {"name": "up__greet"},
            "tools/call": {"name": "up__echo", "arguments": {}},
        }
        for method, params in asking.items():
            error = await peer.error(method, params)
            assert error["code"] == -31502
            assert "'up' cannot be reached" in error["message"]
            assert error["data"]["server"] == "up"
