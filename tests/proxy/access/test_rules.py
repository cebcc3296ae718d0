"""What an entry says of who may use its server: no list shows it to others, and the server never hears of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from coatcheck.server import Access
from tests.proxy.access.people import gateway, serving, user
from tests.proxy.meta.talks import Meta
from tests.proxy.meta.upstreams import Upstream, upstream
from tests.requirements.marks import requirement
from tests.v2025.wire import NEW, Json, Place, text_of

pytestmark = pytest.mark.anyio

FORBIDDEN, TOO_OFTEN, NO_RESOURCE = -31403, -31429, -32002
NOT_ALLOWED = "TOOL_ERR_NOT_ALLOWED"
TERMS: Json = {"one": {"tools": {"e*": {"roles": ["admin"]}, "fail": {"scopes": ["x"]}}}, "two": {"roles": ["ops"]}}
"""Of `one`, some tools are for some; `two`, as a whole, is for ann and eve."""


@pytest.fixture
async def place(one: Upstream, two: Upstream) -> AsyncGenerator[Place]:
    async with serving(gateway([one, two], TERMS)) as place:
        yield place


@pytest.fixture
async def meta_place(one: Upstream, two: Upstream) -> AsyncGenerator[Place]:
    async with serving(gateway([one, two], TERMS, is_meta=True)) as place:
        yield place


def visits(server: Upstream) -> int:
    """Return how often anything of a server's was used."""
    return server.calls + len(server.subscriptions)


# The servers' own tools


@requirement("F-062")
@pytest.mark.parametrize(
    ("name", "may_echo", "may_use_two"), [("ann", False, True), ("bob", False, False), ("eve", True, True)]
)
async def test_every_list_shows_what_its_reader_may_use(
    place: Place, version: str, name: str, may_echo: bool, may_use_two: bool
) -> None:
    caller = await user(place, name, version)
    answers = {method: await caller.ask(method) for method in ("tools/list", "prompts/list", "resources/list")}
    tools = {tool["name"] for tool in answers["tools/list"]["tools"]}
    assert ("one__echo" in tools, "one__everything" in tools, "two__echo" in tools) == (may_echo, may_echo, may_use_two)
    assert "one__work" in tools
    assert "one__fail" not in tools
    prompts = {prompt["name"] for prompt in answers["prompts/list"]["prompts"]}
    assert prompts == {"one__greet", *(["two__greet"] if may_use_two else [])}
    resources = {item["uri"] for item in answers["resources/list"]["resources"]}
    assert ("two+memo://greeting" in resources) == may_use_two
    templates = (await caller.ask("resources/templates/list"))["resourceTemplates"]
    assert {item["uriTemplate"] for item in templates} == {
        f"{server}+memo://people/{{name}}" for server in ("one", *(["two"] if may_use_two else []))
    }
    if version == NEW:
        assert {answer["cacheScope"] for answer in answers.values()} == {"private"}


@requirement("F-057", "F-062")
@pytest.mark.parametrize("tool", ["one__echo", "one__ECHO", "one__e", "two__echo", "two__made_up"])
@pytest.mark.parametrize("is_task", [False, True], ids=["call", "task"])
async def test_a_call_its_caller_may_not_make_is_refused_before_its_server_hears_of_it(
    place: Place, one: Upstream, two: Upstream, version: str, tool: str, is_task: bool
) -> None:
    bob = await user(place, "bob", version)
    said: Json = {"name": tool, "arguments": {"word": "x"}}
    if is_task:
        said |= {"_meta": {"coatcheck/idempotencyKey": "a key"}} if version == NEW else {"task": {}}
    refused = await bob.refusal("tools/call", **said)
    assert refused["code"] == FORBIDDEN
    assert refused["message"] == f"You may not use the tool {tool!r}; ask whoever runs this server for the right to."
    assert (visits(one), visits(two)) == (0, 0)
    assert await place.engine.list(owner='["app","https://issuer.example","bob"]') == []


async def test_who_may_call_does(place: Place, version: str) -> None:
    eve = await user(place, "eve", version)
    assert text_of(await eve.use("one__echo", word="x")) == "x"
    ann = await user(place, "ann", version)
    assert text_of(await ann.use("two__echo", word="y")) == "y"
    granted = await user(place, "bob", version, also={"scope": "x y"})
    assert text_of(await granted.use("one__fail")) == "It went wrong"


@requirement("F-062")
async def test_nothing_else_of_a_server_is_for_those_who_may_not_use_it(
    place: Place, two: Upstream, version: str
) -> None:
    bob = await user(place, "bob", version)
    prompt, uri = {"name": "two__greet", "arguments": {"name": "x"}}, "two+memo://greeting"
    asked: list[tuple[str, Json]] = [
        ("prompts/get", prompt),
        ("resources/read", {"uri": uri}),
        ("resources/read", {"uri": "two+memo://people/x"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "two__greet"}, "argument": ARGUMENT}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": uri}, "argument": ARGUMENT}),
    ]
    if version != NEW:
        asked += [("resources/subscribe", {"uri": uri}), ("resources/unsubscribe", {"uri": uri})]
    for method, params in asked:
        assert (await bob.refusal(method, **params))["code"] == FORBIDDEN, method
    ann = await user(place, "ann", version)
    assert (await ann.ask("resources/read", uri=uri))["contents"][0]["text"] == "hello"
    assert (await ann.ask("prompts/get", **prompt))["messages"]
    assert two.subscriptions == []


ARGUMENT: Json = {"name": "name", "value": ""}


async def test_a_resource_without_a_prefix_is_looked_for_where_its_reader_may_look(two: Upstream, version: str) -> None:
    async with serving(gateway([two], TERMS)) as place:
        ann, bob = await user(place, "ann", version), await user(place, "bob", version)
        refused = await bob.refusal("resources/read", uri="memo://greeting")
        assert refused["code"] != FORBIDDEN
        assert "not found" in refused["message"]
        assert (await ann.ask("resources/read", uri="memo://greeting"))["contents"][0]["text"] == "hello"


async def test_a_stream_carries_nothing_its_listener_may_not_read(place: Place, two: Upstream) -> None:
    bob = await user(place, "bob", NEW)
    uris = ["two+memo://greeting", "one+memo://greeting"]
    bob.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    heard = await bob.until(lambda heard: heard.method == "notifications/subscriptions/acknowledged")
    assert heard.params["notifications"]["resourceSubscriptions"] == uris[1:]


async def test_servers_a_caller_may_not_use_are_not_connected_for_it(
    one: Upstream, two: Upstream, version: str
) -> None:
    await two.stop()  # so that it would be missed
    async with serving(gateway([one, two], TERMS, is_meta=True)) as place:
        listed = (await Meta(await user(place, "bob", version)).use("list_tools")).said
        assert "unavailable" not in listed
        listed = (await Meta(await user(place, "ann", version)).use("list_tools")).said
        assert [each["server"] for each in listed["unavailable"]] == ["two"]


# The meta tools


@requirement("F-062")
async def test_the_meta_tools_show_what_their_caller_may_use(meta_place: Place, version: str) -> None:
    bob, eve = [Meta(await user(meta_place, name, version)) for name in ("bob", "eve")]
    for tool, word in (
        ("list_tools", "tools"),
        ("list_resources", "resources"),
        ("list_resource_templates", "resource_templates"),
        ("list_prompts", "prompts"),
    ):
        seen = {name: (await each.use(tool)).said[word] for name, each in (("bob", bob), ("eve", eve))}
        assert {item["server"] for item in seen["bob"]} == {"one"}
        assert {item["server"] for item in seen["eve"]} == {"one", "two"}
    names = {(tool["server"], tool["name"]) for tool in (await bob.use("list_tools", pattern="")).said["tools"]}
    assert ("one", "work") in names
    assert not {("one", "echo"), ("one", "everything"), ("one", "fail")} & names
    assert [server["name"] for server in (await bob.use("list_servers")).said["servers"]] == ["one"]
    unknown = (await bob.use("get_server_status", server="made-up")).error
    assert unknown == {
        "code": "TOOL_ERR_SERVER_NOT_FOUND",
        "message": "There is no server 'made-up'; there is one.",
    }


@requirement("F-057", "F-062")
async def test_the_meta_tools_reach_nothing_their_caller_may_not_use(
    meta_place: Place, one: Upstream, two: Upstream, version: str
) -> None:
    bob = Meta(await user(meta_place, "bob", version))
    uri = {"uri": "memo://greeting"}
    for tool, arguments in (
        ("execute_tool", {"server": "one", "tool": "echo", "args": {"word": "x"}}),
        ("execute_tool", {"server": "two", "tool": "echo", "args": {"word": "x"}, "timeout_ms": 0}),
        ("list_tools", {"server": "two"}),
        ("list_resources", {"server": "two"}),
        ("list_prompts", {"server": "two"}),
        ("read_resource", {"server": "two", **uri}),
        ("subscribe_resource", {"server": "two", **uri}),
        ("unsubscribe_resource", {"server": "two", **uri}),
        ("get_prompt", {"server": "two", "name": "greet", "arguments": {"name": "x"}}),
        ("get_server_status", {"server": "two"}),
        ("reconnect_server", {"server": "two"}),
    ):
        assert (await bob.use(tool, **arguments)).error["code"] == NOT_ALLOWED, tool
    assert (visits(one), visits(two)) == (0, 0)
    assert (await bob.use("list_tasks", include_completed=True)).said == {"tasks": []}
    direct = await bob.talk.refusal("tools/call", name="two__echo", arguments={"word": "x"})
    assert direct["code"] == FORBIDDEN


async def test_a_name_that_might_be_of_two_servers_is_judged_by_the_one_that_is_called(version: str) -> None:
    """`a__b__echo` is of `a__b` where names are put together, and of `a` for who says so."""
    async with upstream("a") as a, upstream("a__b") as b:
        terms = {"a": {"tools": {"b__*": {"roles": ["admin"]}}}}
        async with serving(gateway([a, b], terms, is_meta=True)) as place:
            bob = Meta(await user(place, "bob", version))
            assert (await bob.execute("echo", server="a__b", word="x")).own == ["x"]
            assert (await bob.execute("b__echo", server="a", word="x")).error["code"] == NOT_ALLOWED


# The proxy as a whole


async def test_what_the_file_says_is_for_all_servers(one: Upstream, two: Upstream, version: str) -> None:
    async with serving(gateway([one, two], {"two": {"roles": ["admin"]}}, whole={"roles": ["ops"]})) as place:
        reachable: dict[str, Any] = {}
        for name in ("ann", "bob", "eve"):
            tools = (await (await user(place, name, version)).ask("tools/list"))["tools"]
            reachable[name] = {tool["name"].partition("__")[0] for tool in tools if "__" in tool["name"]}
        assert reachable == {"ann": {"one"}, "bob": set(), "eve": {"one", "two"}}


async def test_nobody_changes_the_servers_of_a_proxy_with_tokens_unless_the_file_says_who(
    one: Upstream, two: Upstream, version: str
) -> None:
    changing = {"add_server", "remove_server"}
    async with serving(gateway([one], is_meta=True)) as place:
        eve = await user(place, "eve", version)
        assert not changing & set(await eve.tools())
        for tool in changing:
            assert (await eve.refusal("tools/call", name=tool, arguments={}))["code"] == FORBIDDEN
    whole = {"tools": {"*_server": {"roles": ["admin"]}}}
    async with serving(gateway([one], is_meta=True, whole=whole)) as place:
        ann, eve = await user(place, "ann", version), await user(place, "eve", version)
        assert not changing & set(await ann.tools())
        assert (await ann.refusal("tools/call", name="remove_server", arguments={"server": "one"}))["code"] == FORBIDDEN
        added = await Meta(eve).use("add_server", name="two", url=two.url)
        assert added.said["success"] is True
        command = await Meta(eve).use("add_server", name="shell", command="true")
        assert command.error["code"] == NOT_ALLOWED
        assert (await Meta(ann).execute("echo", server="two", word="x")).own == ["x"]


async def test_a_server_that_takes_the_place_of_one_with_terms_cannot_be_added_by_those_who_may_not_use_it(
    one: Upstream, version: str
) -> None:
    whole = {"tools": {"add_server": {"roles": ["ops"]}}}
    async with serving(gateway([one], {"one": {"roles": ["admin"]}}, is_meta=True, whole=whole)) as place:
        ann = Meta(await user(place, "ann", version))
        assert (await ann.use("add_server", name="one", url=one.url)).error["code"] == NOT_ALLOWED
        assert (await ann.execute("echo", word="x")).error["code"] == NOT_ALLOWED


# What is written down


@requirement("G-017")
async def test_what_is_refused_is_written_down(
    one: Upstream, two: Upstream, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "coatcheck.audit")
    audited = {"access": Access(audit=True)}
    async with serving(gateway([one, two], TERMS, is_meta=True, options=audited)) as place:
        bob = Meta(await user(place, "bob", version))
        await bob.execute("echo", word="a secret")
        await bob.use("read_resource", server="two", uri="memo://greeting")
        await bob.talk.refusal("resources/read", uri="two+memo://greeting")
    fields = [vars(record)["fields"] for record in caplog.records if record.name == "coatcheck.audit"]
    denied = {"event": "deny", "owner": '["app","https://issuer.example","bob"]', "reason": "not allowed"}
    assert fields == [
        {**denied, "wanted": "tools/call", "tool": "one__echo"},
        {**denied, "wanted": "tools/call", "server": "two"},
        {**denied, "wanted": "resources/read", "resource": "two+memo://greeting"},
    ]
    assert "a secret" not in caplog.text


@requirement("G-017")
async def test_what_the_meta_tools_do_to_tasks_is_written_down(
    one: Upstream, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "coatcheck.audit")
    async with serving(gateway([one], is_meta=True, options={"access": Access(audit=True)})) as place:
        ann, bob = Meta(await user(place, "ann", version)), Meta(await user(place, "bob", version))
        task_id = await ann.task("work", name="held")
        await ann.use("list_tasks")
        await ann.use("get_task", task_id=task_id)
        await bob.use("cancel_task", task_id=task_id)
        await ann.use("cancel_task", task_id=task_id)
    fields = [vars(record)["fields"] for record in caplog.records if record.name == "coatcheck.audit"]
    said = [(each["event"], each["owner"].split('"')[-2], each.get("task") == task_id) for each in fields]
    assert said[:4] == [("create", "ann", True), ("list", "ann", False), ("read", "ann", True), ("deny", "bob", False)]
    assert said[-1] == ("cancel", "ann", True)
