"""The lists of all servers, put together; who is not there is left out, and told of when it comes."""

from __future__ import annotations

from functools import partial

import pytest

from coatcheck.proxy.gateway import Gateway
from tests.proxy.transparent.conftest import Bench, Connect, echo, in_memory, make_puppet, over_http
from tests.proxy.upstreams.hosts import turned_away
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, Refusal
from tests.sdk.peer import Peer

pytestmark = pytest.mark.anyio
LISTS = {
    "tools/list": ("tools", "name", "up__echo"),
    "prompts/list": ("prompts", "name", "up__greet"),
    "resources/list": ("resources", "uri", "up+mem://one"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", "up+mem://{number}/x"),
}
OWN = {"coatcheck://diagrams", "get_task", "wait_task", "answer_task", "cancel_task", "list_tasks"}
CHANGES = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
}
methods = pytest.mark.parametrize("method", LISTS)


async def listed(peer: Peer, method: str) -> list[str]:
    """Return what is listed, but for what is the proxy's own."""
    word, field, _ = LISTS[method]
    return [item[field] for item in (await peer.result(method))[word] if item[field] not in OWN]


async def listen(peer: Peer, **wanted: object) -> None:
    """Be told of changes, in the way of the client's generation."""
    if peer.client.is_modern:
        asking = peer.begin("subscriptions/listen", {"notifications": wanted})
        await peer.hears("notifications/subscriptions/acknowledged")
        assert not asking.done()


@methods
async def test_what_a_server_has_is_listed_under_its_name(
    method: str, gateway: Gateway, version: str, connect: Connect
) -> None:
    async with connect(gateway, version) as peer:
        assert await listed(peer, method) == [LISTS[method][2]]


async def test_what_is_listed_is_otherwise_as_it_was(
    bench: Bench, puppet: Puppet, version: str, connect: Connect
) -> None:
    said: Json = {
        "name": "do",
        "title": "Do it",
        "description": "Does it",
        "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "null"}}},
        "annotations": {"readOnlyHint": True, "title": "Done"},
        "icons": [{"src": "https://example.com/icon.png"}],
        "_meta": {"example.com/mark": [1, None]},
    }

    async def tools(exchange: Exchange) -> Json:
        return {"tools": [said], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    puppet.replies["tools/list"] = tools
    await bench.serve("up", puppet)
    async with connect(bench.proxy(), version) as peer:
        found = [tool for tool in (await peer.result("tools/list"))["tools"] if tool["name"] not in OWN]
        for tool in found:
            assert tool.pop("execution", {"taskSupport": "optional"}) == {"taskSupport": "optional"}
            assert tool["_meta"].pop("coatcheck/taskSupport", "optional") == "optional"
        assert found == [{**said, "name": "up__do"}]


@methods
async def test_the_lists_of_several_servers_are_put_together(method: str, bench: Bench, version: str) -> None:
    await bench.serve("up", make_puppet(OLDER))
    await bench.serve("other", make_puppet(NEWER))
    async with in_memory(bench.proxy(), version) as peer:
        expected = LISTS[method][2]
        assert await listed(peer, method) == [expected, expected.replace("up", "other", 1)]


@methods
async def test_without_prefixes_names_are_as_they_were(method: str, bench: Bench, puppet: Puppet, version: str) -> None:
    await bench.serve("up", puppet)
    async with in_memory(bench.proxy(prefixes=False), version) as peer:
        assert await listed(peer, method) == [LISTS[method][2].removeprefix("up__").removeprefix("up+")]
        assert (await peer.call("echo", word="a"))["content"][0]["text"] == "a"


@methods
async def test_a_list_of_several_pages_is_read_to_its_end(method: str, bench: Bench, puppet: Puppet) -> None:
    word, field, expected = LISTS[method]
    pages: dict[str | None, tuple[list[str], str | None]] = {
        None: (["a", "b"], "second"),
        "second": ([], "third"),
        "third": (["c"], None),
    }

    async def page(exchange: Exchange) -> Json:
        names, following = pages[exchange.params.get("cursor")]
        items = [{"name": name, field: name, "inputSchema": {"type": "object"}} for name in names]
        more = {"nextCursor": following} if following else {}
        return {word: items, **more, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    puppet.replies[method] = page
    await bench.serve("up", puppet)
    async with in_memory(bench.proxy(), OLDER) as peer:
        prefix = expected[:4] if field == "name" else expected[:3]
        assert await listed(peer, method) == [f"{prefix}{name}" for name in "abc"]


# Changes


@methods
async def test_a_list_is_asked_for_once_and_again_when_it_has_changed(
    method: str, gateway: Gateway, puppet: Puppet, version: str
) -> None:
    async with in_memory(gateway, version) as peer:
        before = await listed(peer, method)
        for other in LISTS:
            await listed(peer, other)
        asked = len(puppet.of(method))
        assert await listed(peer, method) == before
        assert len(puppet.of(method)) == asked
        change = CHANGES[method]
        await listen(peer, **{f"{change}ListChanged": True})
        await puppet.heard_by(1)
        puppet.tools["more"] = echo
        puppet.lists["prompts"].append({"name": "more"})
        puppet.lists["resources"].append({"uri": "mem://more", "name": "more"})
        puppet.lists["resourceTemplates"].append({"uriTemplate": "mem://more/{x}", "name": "more"})
        puppet.tell(f"notifications/{change}/list_changed")
        await peer.hears(f"notifications/{change}/list_changed")
        found = await listed(peer, method)
        assert len(found) == 2
        assert "more" in found[1]


@pytest.mark.parametrize("change", ["tools", "prompts", "resources"])
async def test_changes_are_told_to_clients_over_http(
    change: str, gateway: Gateway, puppet: Puppet, version: str
) -> None:
    async with over_http(gateway, version) as peer:
        await listed(peer, "tools/list")
        await listen(peer, **{f"{change}ListChanged": True})
        await puppet.heard_by(1)
        puppet.tell(f"notifications/{change}/list_changed")
        await peer.hears(f"notifications/{change}/list_changed")


@methods
async def test_a_server_that_is_not_there_is_left_out_and_told_of_when_it_comes(
    method: str, bench: Bench, puppet: Puppet, version: str, connect: Connect
) -> None:
    await bench.serve("there", make_puppet(OLDER))
    late = await bench.serve("up", puppet)
    await late.stop()
    change = CHANGES[method]
    async with connect(bench.proxy(), version) as peer:
        await listen(peer, **{f"{change}ListChanged": True})
        expected = LISTS[method][2]
        assert await listed(peer, method) == [expected.replace("up", "there", 1)]
        await late.start()
        await peer.hears(f"notifications/{change}/list_changed")
        assert await listed(peer, method) == [expected.replace("up", "there", 1), expected]


@methods
async def test_a_server_that_comes_back_is_told_of(
    method: str, bench: Bench, puppet: Puppet, version: str, connect: Connect
) -> None:
    await bench.serve("there", make_puppet(OLDER))
    lost = await bench.serve("up", puppet)
    change = CHANGES[method]
    async with connect(bench.proxy(), version) as peer:
        await listen(peer, **{f"{change}ListChanged": True})
        assert len(await listed(peer, method)) == 2
        await lost.stop()
        async with turned_away(lost) as came:
            calling = peer.begin("tools/call", {"name": "up__echo", "arguments": {"word": "a"}})
            await came(2)
        await lost.start()
        assert "result" in await calling or "error" in await calling
        await peer.hears(f"notifications/{change}/list_changed")


async def test_a_server_that_refuses_to_list_does_not_spoil_the_list(
    bench: Bench, puppet: Puppet, version: str
) -> None:
    async def refuse(exchange: Exchange) -> Json:
        raise Refusal({"code": -32603, "message": "Not today"})

    for method in LISTS:
        puppet.replies[method] = refuse
    await bench.serve("up", puppet)
    await bench.serve("there", make_puppet(OLDER))
    async with in_memory(bench.proxy(), version) as peer:
        for method, (_, _, expected) in LISTS.items():
            assert await listed(peer, method) == [expected.replace("up", "there", 1)]


async def test_a_server_without_resources_and_prompts_is_not_asked_for_any(bench: Bench, version: str) -> None:
    puppet = Puppet()
    puppet.tools["echo"] = echo
    await bench.serve("up", puppet)
    async with in_memory(bench.proxy(), version) as peer:
        assert [await listed(peer, method) for method in LISTS] == [["up__echo"], [], [], []]
    assert {sent.method for sent in puppet.sent} & set(LISTS) == {"tools/list"}


async def test_a_server_that_says_nonsense_does_not_spoil_the_list(bench: Bench, version: str) -> None:
    puppet = make_puppet(OLDER)
    for method, (word, _, _) in LISTS.items():
        puppet.replies[method] = partial(_nonsense, word)
    await bench.serve("up", puppet)
    await bench.serve("there", make_puppet(OLDER))
    async with in_memory(bench.proxy(), version) as peer:
        for method, (_, _, expected) in LISTS.items():
            assert await listed(peer, method) == [expected.replace("up", "there", 1)]


async def _nonsense(word: str, exchange: Exchange) -> Json:
    return {word: [1, None, [], {"name": 3, "uri": 4, "uriTemplate": 5}, {}]}
