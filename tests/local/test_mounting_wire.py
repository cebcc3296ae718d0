"""Servers in servers, as clients of every kind see them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError

from coatcheck.server import Access, Rate, TaskServer, role
from tests.access.people import callers, guarded
from tests.local.stage import TASK, text_of
from tests.local.town import Town
from tests.requirements.marks import requirement
from tests.server.wire import OverHTTP, in_memory, over_http
from tests.v2025.wire import ASKABLE, NEW, OLD, VERSION, WITH_TASKS, Place, Talk, served
from tests.v2025.wire import text_of as wire_text_of

pytestmark = pytest.mark.anyio

VERSIONS = (NEW, VERSION, OLD)
LEVELS = {"mall": ("shop_", "shop+"), "city": ("mall_shop_", "mall+shop+")}


@asynccontextmanager
async def talking(host: TaskServer, version: str) -> AsyncGenerator[tuple[Place, Talk]]:
    async with served(host) as place:
        yield place, await place.memory(version, WITH_TASKS if version == NEW else ASKABLE)


async def result_of(place: Place, caller: Talk, version: str, tool: str) -> str:
    """Call a tool as a client of this version does, and return the text of its result."""
    if version == OLD:
        return wire_text_of(await caller.use(tool))
    if version == VERSION:
        return wire_text_of(await caller.collect(await caller.hand_in(tool)))
    created = await caller.use(tool)
    assert created["resultType"] == "task"
    await place.engine.finished(await place.engine.get(created["taskId"]))
    return wire_text_of((await caller.get(created["taskId"]))["result"])


@requirement("M-010", "M-012", "M-013")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("level", LEVELS)
async def test_a_guests_tools_are_called_through_all_middleware_once(level: str, version: str) -> None:
    town = Town()
    prefix, _ = LEVELS[level]
    async with talking(getattr(town, level), version) as (place, caller):
        assert await result_of(place, caller, version, f"{prefix}where") == "shop shop"
        outer = [("city", "mall_shop_where")] if level == "city" else []
        assert town.seen == [*outer, ("mall", "shop_where"), ("shop", "where")]
        assert await result_of(place, caller, version, f"{prefix}ours") == f"{prefix}ours"
        assert await result_of(place, caller, version, f"{prefix}twice") == f"{prefix}where: shop shop"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("level", LEVELS)
async def test_what_a_guest_offers_is_listed_and_read(level: str, version: str) -> None:
    town = Town()
    prefix, plus = LEVELS[level]
    async with talking(getattr(town, level), version) as (_, caller):
        names = ("where", "twice", "ours", "greet", "in_thread", "plain")
        assert {f"{prefix}{name}" for name in names} <= (await caller.tools()).keys()
        listed = str([await caller.ask(f"{kind}/list") for kind in ("resources", "resources/templates", "prompts")])
        for known_as in (f"{plus}notes:all", f"{plus}notes://{{name}}", f"{prefix}ask"):
            assert known_as in listed
        read = await caller.ask("resources/read", uri=f"{plus}notes://x")
        (item,) = read["contents"]
        assert (item["text"], item["uri"]) == ("x shop shop", f"{plus}notes://x")
        assert town.seen[-1] == ("shop", "notes://x")
        prompt = await caller.ask("prompts/get", name=f"{prefix}ask", arguments={"topic": "tides"})
        assert "tides shop shop" in str(prompt)
        assert town.seen[-1] == ("shop", "ask")


async def test_a_guests_plain_tools_are_no_tasks_at_the_host() -> None:
    town = Town()
    async with talking(town.mall, NEW) as (place, caller):
        assert wire_text_of(await caller.use("shop_plain")) == "plain"
        assert await place.engine.list_all() == []
        assert town.seen == [("mall", "shop_plain"), ("shop", "plain")]


@pytest.mark.parametrize("tool", ["shop_where", "shop_plain"])
async def test_the_shorter_way_over_http_does_not_go_around_a_guests_middleware(tool: str) -> None:
    town = Town(middleware=[])
    async with over_http(town.mall) as caller:
        for _ in range(3):
            created = await caller.call(tool)
            if tool == "shop_where":
                assert wire_text_of((await caller.finished(created["taskId"]))["result"]) == "shop shop"
    assert town.seen == [("shop", tool.removeprefix("shop_"))] * 3


@pytest.mark.parametrize("level", LEVELS)
async def test_questions_of_a_guests_tool_are_put_to_the_hosts_caller(level: str) -> None:
    async with talking(getattr(Town(), level), VERSION) as (_, caller):
        task_id = await caller.hand_in(f"{LEVELS[level][0]}greet")
        collecting = caller.collecting(task_id)
        await caller.reply(await caller.question(), {"action": "accept", "content": {"name": "Ann"}})
        assert wire_text_of((await collecting.answer())["result"]) == "Ann"


async def test_a_guest_is_served_by_itself_at_the_same_time() -> None:
    town = Town()
    async with in_memory(town.mall) as at_mall, in_memory(town.shop) as at_shop:
        hosted, own = await at_mall.hand_in("shop_where"), await at_shop.hand_in("where")
        for caller, task_id, other in ((at_mall, hosted, own), (at_shop, own, hosted)):
            assert wire_text_of((await caller.finished(task_id))["result"]) == "shop shop"
            with pytest.raises(MCPError, match="Task not found"):
                await caller.get(other)
    assert town.seen == [("mall", "shop_where"), ("shop", "where"), ("shop", "where")]


async def test_what_a_guest_tells_of_changes_reaches_those_who_listen_to_its_host() -> None:
    town = Town()

    @town.shop.tool(task=True)
    async def change(ctx: Context) -> None:
        await ctx.notify_tools_changed()
        await ctx.notify_resource_updated("notes:all")

    async with over_http(town.mall) as caller:
        kinds = {"toolsListChanged": True, "resourceSubscriptions": ["shop+notes:all"]}
        async with caller.listening(**kinds) as stream:
            await stream.start()
            await stream.message()
            await caller.finished(await caller.hand_in("shop_change"))
            assert (await stream.message())["method"] == "notifications/tools/list_changed"
            updated = await stream.message()
            assert updated["method"] == "notifications/resources/updated"
            assert updated["params"]["uri"] == "shop+notes:all"


# Rules and rates


async def may(caller: OverHTTP, tool: str) -> None:
    assert (await caller.call(tool))["resultType"] == "task"


def guarded_mall(**access: Access) -> TaskServer:
    """Return a host that knows its callers, with a guest that has rules of its own."""
    guest, host = (
        TaskServer("guest", access=access.get("guest", Access())),
        guarded(access=access.get("host", Access())),
    )

    @guest.tool(task=True, authorize=role("editor"))
    async def edit() -> str:
        return "edited"

    @guest.tool(task=True, rate=Rate(2))
    async def look() -> str:
        return "looked"

    @guest.tool(task=True)
    async def watch() -> str:
        return "watched"

    @guest.resource("notes://{name}", authorize=role("editor"), task=True)
    async def note(name: str) -> str:
        return name

    @guest.resource("notes:all", authorize=role("editor"))
    async def notes() -> str:
        return "all"

    @guest.prompt(authorize=role("editor"), task=True)
    async def ask() -> str:
        return "?"

    @host.tool(task=True)
    async def own() -> str:
        return "own"

    @host.tool()
    async def local(kind: str, ctx: Context) -> str:
        if kind == "tool":
            return text_of(await (await host.call_tool("guest_edit", {}, ctx, task_meta=TASK)))
        return (await host.read_resource("guest+notes://x", ctx, task_meta=TASK)).id

    host.mount(guest, "guest")
    return host


@requirement("F-062")
async def test_a_guests_rules_hold_at_its_host_and_in_its_lists() -> None:
    async with callers(guarded_mall()) as (ann, bob, _):
        await may(ann, "guest_edit")
        await ann.request("resources/read", {"uri": "guest+notes://x"})
        await ann.request("resources/read", {"uri": "guest+notes:all"})
        await ann.request("prompts/get", {"name": "guest_ask"})
        refused: Sequence[tuple[str, dict[str, object]]] = (
            ("tools/call", {"name": "guest_edit", "arguments": {}}),
            ("resources/read", {"uri": "guest+notes://x"}),
            ("resources/read", {"uri": "guest+notes:all"}),
            ("prompts/get", {"name": "guest_ask"}),
        )
        for method, params in refused:
            with pytest.raises(MCPError, match="You may not use the"):
                await bob.request(method, params)
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            shown = [str(await caller.request(method, {})) for caller in (ann, bob)]
            for name in ("guest_edit", "guest+notes", "guest_ask"):
                assert name not in shown[1]
            assert any(name in shown[0] for name in ("guest_edit", "guest+notes", "guest_ask"))


@pytest.mark.parametrize("kind", ["tool", "resource"])
async def test_a_guests_rules_hold_for_calls_of_your_own_code_on_behalf_of_a_caller(kind: str) -> None:
    async with callers(guarded_mall()) as (ann, bob, _):
        assert not (await ann.call("local", kind=kind)).get("isError")
        assert (await bob.call("local", kind=kind))["isError"]


@requirement("F-059")
async def test_a_guests_rates_hold_at_its_host() -> None:
    async with callers(guarded_mall()) as (ann, bob, _):
        for caller in (ann, bob):
            for _ in range(2):
                await may(caller, "guest_look")
            with pytest.raises(MCPError, match="'guest_look' may be called 2 times a minute"):
                await caller.call("guest_look")
            await may(caller, "guest_watch")


@requirement("F-059")
async def test_a_guests_rate_for_all_its_tools_is_for_them_and_no_others() -> None:
    async with callers(guarded_mall(guest=Access(rate=Rate(3)))) as (ann, *_):
        await may(ann, "guest_edit")
        await may(ann, "guest_look")
        await may(ann, "guest_watch")
        for tool in ("guest_watch", "guest_edit", "guest_look"):
            with pytest.raises(MCPError, match="may be called 3 times a minute"):
                await ann.call(tool)
        await may(ann, "own")


async def test_a_guests_rule_for_everything_is_for_its_own_only() -> None:
    async with callers(guarded_mall(guest=Access(authorize=role("editor")))) as (ann, bob, _):
        await may(ann, "guest_watch")
        await may(bob, "own")
        with pytest.raises(MCPError, match="You may not use the tool 'guest_watch'"):
            await bob.call("guest_watch")


async def test_a_hosts_rule_for_everything_is_for_what_its_guests_leave_open() -> None:
    async with callers(guarded_mall(host=Access(authorize=role("reader")))) as (ann, bob, _):
        await may(ann, "guest_edit")  # of which the guest says who may
        await may(bob, "guest_watch")
        with pytest.raises(MCPError, match="You may not use the tool 'guest_watch'"):
            await ann.call("guest_watch")
