"""Servers made of servers: what a host has of its guests, and under which names."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context, Resolve
from mcp.server.mcpserver.tools import Tool
from mcp_types import GetPromptResult, TextContent

from coatcheck import InvalidArgument
from coatcheck.server import TaskMeta, TaskPolicy, TaskServer
from tests.local.stage import PATIENCE, TASK, asked, text_of
from tests.local.town import Town
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio


@pytest.fixture
def town() -> Town:
    return Town()


def where(ctx: Context) -> str:
    return f"{ctx.mcp_server.name} {ctx.request_context.lifespan_context['of']}"


async def shelf(ctx: Context, where: Annotated[str, Resolve(where)]) -> str:
    return f"{ctx.mcp_server.name}, {where}"


def prompted(result: GetPromptResult) -> str:
    (message,) = result.messages
    assert isinstance(message.content, TextContent)
    return message.content.text


# Names and keys


@requirement("M-010", "M-012", "M-013")
async def test_a_guests_tool_has_a_name_at_its_host_and_the_middleware_of_both(town: Town) -> None:
    async with town.mall.started():
        task = await town.mall.call_tool("shop_where", task_meta=TASK)
        assert task.latest.call.tool == "shop_where"
        assert text_of(await task) == "shop shop"
        assert town.seen == [("mall", "shop_where"), ("shop", "where")]


@requirement("M-010", "M-012", "M-013")
async def test_two_levels_have_two_prefixes_and_three_middleware(town: Town) -> None:
    async with town.city.started():
        task = await town.city.call_tool("mall_shop_where", task_meta=TASK)
        assert task.latest.call.tool == "mall_shop_where"
        assert text_of(await task) == "shop shop"
        assert town.seen == [("city", "mall_shop_where"), ("mall", "shop_where"), ("shop", "where")]


@requirement("M-010")
@pytest.mark.parametrize(("level", "dot", "plus"), [("mall", "shop_", "shop+"), ("city", "mall_shop_", "mall+shop+")])
async def test_resources_and_prompts_are_mounted_too(town: Town, level: str, dot: str, plus: str) -> None:
    host: TaskServer = getattr(town, level)
    async with host.started():
        reading = await host.read_resource(f"{plus}notes://x", task_meta=TASK)
        assert reading.latest.call.tool == f"resource:{plus}notes://{{name}}"
        (item,) = await reading
        assert item.content == "x shop shop"
        assert town.seen[-1] == ("shop", "notes://x")
        (item,) = await (await host.read_resource(f"{plus}notes:all", task_meta=TASK))
        assert item.content == "all notes"
        assert town.seen[-1] == ("shop", "notes:all")
        rendering = await host.render_prompt(f"{dot}ask", {"topic": "tides"}, task_meta=TASK)
        assert rendering.latest.call.tool == f"prompt:{dot}ask"
        assert prompted(await rendering) == "tides shop shop"
        assert town.seen[-1] == ("shop", "ask")


async def test_what_is_mounted_may_be_called_at_once_as_well(town: Town) -> None:
    async with town.mall.started():
        result: Any = await town.mall.call_tool("shop_where")
        assert text_of(result) == "shop shop"
        found: Any = await town.mall.read_resource("shop+notes://x")
        assert [item.content for item in found] == ["x shop shop"]
        prompt: Any = await town.mall.render_prompt("shop_ask", {"topic": "tides"})
        assert prompted(prompt) == "tides shop shop"


async def test_every_context_of_a_guest_is_of_the_guest(town: Town) -> None:
    async with town.mall.started():
        assert text_of(await (await town.mall.call_tool("shop_in_thread", task_meta=TASK))) == "shop"
        assert text_of(await (await town.mall.call_tool("shop_ours", task_meta=TASK))) == "shop_ours"
        task = await town.mall.call_tool("shop_greet", task_meta=TASK)
        await asked(task)
        await task.send_input("accept", {"name": "Ann"})
        assert text_of(await task) == "Ann"


@requirement("M-009", "M-010")
async def test_a_component_that_is_given_is_kept_at_the_host(town: Town) -> None:
    async with town.mall.started():
        meta = TaskMeta(component="tool:shop_where")
        task = await town.mall.call_tool("shop_ours", task_meta=meta)
        assert task.latest.call.tool == "shop_where"
        await task
        with pytest.raises(InvalidArgument, match="leave out component"):
            await town.mall.call_tool("shop_ours", task_meta=TaskMeta(component="tool:where"))


@pytest.mark.parametrize("prefix", ["", "a b", "a.b", "1a", "a+b", "a/b", "ü!"])
def test_what_can_be_no_prefix_is_refused(prefix: str) -> None:
    host = TaskServer("host", store="memory://")
    with pytest.raises(InvalidArgument, match="A prefix is a name of letters"):
        host.mount(TaskServer("guest"), prefix)


def test_a_prefix_is_taken_once() -> None:
    host = TaskServer("host", store="memory://")
    host.mount(TaskServer("guest"), "shop")
    with pytest.raises(InvalidArgument, match="There is a server at 'shop' already; give this one another prefix"):
        host.mount(TaskServer("other"), "shop")


def test_no_server_is_mounted_in_itself(town: Town) -> None:
    for guest, host in ((town.shop, town.shop), (town.mall, town.shop), (town.city, town.shop), (town.city, town.city)):
        with pytest.raises(InvalidArgument, match="cannot be mounted in itself"):
            host.mount(guest, "again")


async def test_one_guest_may_be_mounted_twice() -> None:
    guest, host = TaskServer("guest"), TaskServer("host", store="memory://")

    @guest.tool(task=True)
    async def where() -> str:
        return "here"

    host.mount(guest, "one")
    host.mount(guest, "two")
    async with host.started():
        tasks = [await host.call_tool(f"{prefix}_where", task_meta=TASK) for prefix in ("one", "two")]
        assert [text_of(await task) for task in tasks] == ["here", "here"]


# What comes and goes


async def test_what_a_guest_adds_and_removes_later_comes_and_goes_at_the_host(town: Town) -> None:
    async with town.city.started():

        @town.shop.tool(task=True)
        async def late() -> str:
            return "late"

        @town.shop.prompt(task=True)
        async def soon() -> str:
            return "soon"

        @town.shop.resource("later://{x}", task=True)
        async def later(x: str) -> str:
            return x

        city = town.city
        assert text_of(await (await city.call_tool("mall_shop_late", task_meta=TASK))) == "late"
        assert prompted(await (await city.render_prompt("mall_shop_soon", task_meta=TASK))) == "soon"
        (item,) = await (await city.read_resource("mall+shop+later://x", task_meta=TASK))
        assert item.content == "x"
        assert town.seen[-3:] == [("city", "mall+shop+later://x"), ("mall", "shop+later://x"), ("shop", "later://x")]

        town.shop.remove_tool("late")
        town.shop.remove_prompt("soon")
        with pytest.raises(InvalidArgument, match="no tasks here"):
            await city.call_tool("mall_shop_late", task_meta=TASK)
        with pytest.raises(InvalidArgument, match="no tasks here"):
            await city.render_prompt("mall_shop_soon", task_meta=TASK)
        assert "mall_shop_late" not in [tool.name for tool in await city.list_tools()]
        assert "mall_shop_soon" not in [prompt.name for prompt in await city.list_prompts()]

        @town.shop.tool("late", task=True)
        async def again() -> str:
            return "again"

        assert text_of(await (await city.call_tool("mall_shop_late", task_meta=TASK))) == "again"


async def test_of_two_with_one_name_the_first_stays_and_is_what_it_was() -> None:
    town = Town()
    host, guest = TaskServer("host", store="memory://"), town.shop

    @host.tool("shop_where", task=True)
    async def own() -> str:
        return "the host's own"

    host.mount(guest, "shop")
    async with host.started():
        assert text_of(await (await host.call_tool("shop_where", task_meta=TASK))) == "the host's own"
        assert town.seen == []  # it is none of the guest's
        guest.remove_tool("where")
        assert text_of(await (await host.call_tool("shop_where", task_meta=TASK))) == "the host's own"


async def test_a_host_may_replace_what_a_guest_offers() -> None:
    town = Town()
    town.mall.remove_tool("shop_where")

    @town.mall.tool("shop_where", task=True)
    async def own() -> str:
        return "the host's own"

    async with town.mall.started():
        assert text_of(await (await town.mall.call_tool("shop_where", task_meta=TASK))) == "the host's own"
        assert town.seen == [("mall", "shop_where")]


# What a guest says of itself


@pytest.mark.parametrize(
    ("guests", "hosts", "is_task"), [(True, None, True), (None, True, False), ("required", None, True)]
)
async def test_a_guests_default_holds_at_the_host(guests: Any, hosts: Any, is_task: bool) -> None:
    guest = TaskServer("guest", task=guests)
    host = TaskServer("host", store="memory://", task=hosts)

    @guest.tool()
    async def where() -> str:
        return "here"

    @guest.resource("notes://{x}")
    async def note(x: str) -> str:
        return x

    @guest.prompt()
    async def ask() -> str:
        return "?"

    host.mount(guest, "guest")
    async with host.started():
        calls: list[Any] = [
            host.call_tool("guest_where", task_meta=TASK),
            host.read_resource("guest+notes://x", task_meta=TASK),
            host.render_prompt("guest_ask", task_meta=TASK),
        ]
        for call in calls:
            if is_task:
                await (await call)
            else:
                with pytest.raises(InvalidArgument, match="no tasks here"):
                    await call


async def test_a_guests_policy_holds_at_the_host() -> None:
    guest, host = TaskServer("guest"), TaskServer("host", store="memory://", concurrency=0)

    @guest.tool(task=TaskPolicy("optional", ttl=77, resumable=True))
    async def where() -> str:
        return "here"

    host.mount(guest, "guest")
    async with host.started():
        latest = (await host.call_tool("guest_where", task_meta=TASK)).latest
        assert latest.expires_at
        assert ((latest.expires_at - latest.created_at).total_seconds(), latest.resumable) == (77, True)


# Who runs


@pytest.mark.parametrize("level", ["mall", "city"])
async def test_lifespans_are_entered_once_and_left_in_turn(town: Town, level: str) -> None:
    host: TaskServer = getattr(town, level)
    names = ["city", "mall", "shop"][["city", "mall"].index(level) :]
    async with host.started(), host.started():
        assert sorted(town.lives) == sorted(f"{name} opens" for name in names)
        await (await host.call_tool(f"{'mall_' if level == 'city' else ''}shop_where", task_meta=TASK))
    assert sorted(town.lives[len(names) :]) == sorted(f"{name} closes" for name in names)
    assert len(town.lives) == 2 * len(names)


@pytest.mark.parametrize("level", ["mall", "city"])
async def test_a_guest_may_call_itself_while_only_its_host_runs(town: Town, level: str) -> None:
    host: TaskServer = getattr(town, level)
    known_as = {"mall": "shop", "city": "mall_shop"}[level]
    async with host.started():
        task = await town.shop.call_tool("where", task_meta=TASK)
        assert task.latest.call.tool == f"{known_as}_where"
        assert text_of(await task) == "shop shop"
        assert town.seen[-1] == ("shop", "where")
        (item,) = await (await town.shop.read_resource("notes://x", task_meta=TASK))
        assert item.content == "x shop shop"
        assert prompted(await (await town.shop.render_prompt("ask", {"topic": "x"}, task_meta=TASK))) == "x shop shop"
        assert (await town.shop.task(task.id)).id == task.id
        assert task.id in [each.id for each in (await town.shop.list_tasks()).tasks]
        parent = await host.call_tool(f"{known_as}_twice", task_meta=TASK)
        assert text_of(await parent) == f"{known_as}_where: shop shop"
        assert len((await host.list_tasks(parent.latest.as_owner)).tasks) == 1


async def test_a_guest_that_calls_itself_at_once_has_its_state_while_only_its_host_runs(town: Town) -> None:
    for host in (town.mall, town.city):
        async with host.started():
            result: Any = await town.shop.call_tool("where")
            assert text_of(result) == "shop shop"


async def test_a_guest_calls_itself_by_whichever_of_its_hosts_runs() -> None:
    guest = TaskServer("guest")

    @guest.tool(task=True)
    async def where() -> str:
        return "here"

    hosts = [TaskServer(f"host {number}", store="memory://") for number in range(2)]
    for number, host in enumerate(hosts):
        host.mount(guest, f"guest{number}")
    for number, host in enumerate(hosts):
        async with host.started():
            task = await guest.call_tool("where", task_meta=TASK)
            assert task.latest.call.tool == f"guest{number}_where"
            assert text_of(await task) == "here"


async def test_a_guest_that_runs_by_itself_too_makes_its_tasks_itself(town: Town) -> None:
    async with town.mall.started(), town.shop.started():
        task = await town.shop.call_tool("where", task_meta=TASK)
        assert task.latest.call.tool == "where"
        assert text_of(await task) == "shop shop"
        hosted = await town.mall.call_tool("shop_where", task_meta=TASK)
        assert text_of(await hosted) == "shop shop"
        assert [each.id for each in (await town.shop.list_tasks()).tasks] == [task.id]
        assert [each.id for each in (await town.mall.list_tasks()).tasks] == [hosted.id]
    assert town.lives.count("shop opens") == town.lives.count("shop closes") == 2


async def test_a_child_is_made_where_its_parent_is_kept_whoever_else_runs(town: Town) -> None:
    async with town.mall.started(), town.shop.started(), town.city.started():
        for host, known_as in ((town.city, "mall_shop_"), (town.mall, "shop_"), (town.shop, "")):
            parent = await host.call_tool(f"{known_as}twice", task_meta=TASK)
            assert text_of(await parent) == f"{known_as}where: shop shop"
            assert len((await host.list_tasks(parent.latest.as_owner)).tasks) == 1


async def test_hosts_that_run_at_once_have_a_state_of_the_guests_each() -> None:
    town, numbers = Town(), iter(range(9))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[dict[str, str]]:
        state = {"of": f"life {next(numbers)}"}
        yield state
        state["of"] = "over"

    shop, mall, city = TaskServer("shop", lifespan=lifespan), town.made("mall"), town.made("city")

    @shop.tool(task=True)
    async def where(ctx: Context) -> str:
        return ctx.request_context.lifespan_context["of"]

    mall.mount(shop, "shop")
    city.mount(mall, "mall")

    async def said(host: TaskServer, name: str) -> str:
        return text_of(await (await host.call_tool(name, task_meta=TASK)))

    async with mall.started():
        async with city.started():
            assert await said(mall, "shop_where") == "life 0"
            assert await said(city, "mall_shop_where") == "life 1"
        assert await said(mall, "shop_where") == "life 0"


@asynccontextmanager
async def lifetime(_: Any) -> AsyncGenerator[None]:
    yield


async def test_a_guest_with_a_lifespan_cannot_come_once_its_host_runs(town: Town) -> None:
    between = TaskServer("between")
    between.mount(TaskServer("late", lifespan=lifetime), "late")
    async with town.mall.started():
        late = TaskServer("late", lifespan=lifetime)
        for host, guest in ((town.mall, late), (town.shop, late), (town.mall, between)):
            with pytest.raises(
                InvalidArgument, match="runs already, and the guest has a lifespan or jobs; mount it befo"
            ):
                host.mount(guest, "late")
        town.mall.mount(TaskServer("late"), "late")


async def test_ready_made_tools_of_a_guest_are_mounted_too() -> None:
    async def where(ctx: Context, n: int = 1) -> str:
        """Say where it is."""
        return f"{ctx.mcp_server.name} {n}"

    ready = Tool.from_function(where, title="Where", meta={"a": 1})
    guest, host = TaskServer("guest", tools=[ready], task=True), TaskServer("host", store="memory://")
    host.mount(guest, "guest")
    async with host.started():
        assert text_of(await (await host.call_tool("guest_where", {"n": 2}, task_meta=TASK))) == "guest 2"
        (tool,) = [tool for tool in await host.list_tools() if tool.name == "guest_where"]
        assert (tool.title, tool.description, tool.meta) == ("Where", "Say where it is.", {"a": 1})


async def test_what_a_guests_tool_asks_before_its_body_is_of_the_guest() -> None:
    town = Town()

    @town.shop.tool(task=True)
    async def find(shelf: Annotated[str, Resolve(shelf)]) -> str:
        return shelf

    async with town.mall.started():
        task = await town.mall.call_tool("shop_find", task_meta=TASK)
        assert text_of(await task) == "shop, shop shop"
    async with town.city.started():
        result: Any = await town.city.call_tool("mall_shop_find")
        assert text_of(result) == "shop, shop shop"


@pytest.mark.parametrize("times", [1, 3])
async def test_a_host_may_run_again(town: Town, times: int) -> None:
    for _ in range(times):
        async with town.mall.started():
            task = await town.mall.call_tool("shop_where", task_meta=TASK)
            assert text_of(await task.result(PATIENCE)) == "shop shop"
    assert town.lives.count("shop opens") == times


async def test_a_parent_and_its_child_may_be_of_two_servers() -> None:
    guest, host = TaskServer("guest"), TaskServer("host", store="memory://")

    @guest.tool(task=True)
    async def child() -> str:
        return "of the guest"

    @host.tool(task=True)
    async def parent(ctx: Context) -> str:
        return text_of(await (await host.call_tool("guest_child", {}, ctx, task_meta=TASK)))

    host.mount(guest, "guest")
    async with host.started():
        task = await host.call_tool("parent", task_meta=TASK)
        assert text_of(await task) == "of the guest"
        assert len((await host.list_tasks(task.latest.as_owner)).tasks) == 1
