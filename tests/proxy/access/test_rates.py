"""How often servers may be called: counted on every way through the proxy, also on the quick ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from coatcheck.proxy.transparent.calls import Calls
from coatcheck.server import Access, Rate
from tests.proxy.access.people import GENERATIONS, gateway, serving, user
from tests.proxy.meta.talks import Meta
from tests.proxy.meta.upstreams import Upstream, upstream
from tests.proxy.quick.callers import Caller
from tests.proxy.quick.conftest import LongWay, patient
from tests.requirements.marks import requirement
from tests.v2025.wire import Json, Place

__all__ = ["patient"]

pytestmark = pytest.mark.anyio

TOO_OFTEN = -31429
TERMS: Json = {"up": {"rate": "3/hour", "tools": {"ech*": {"rate": "2/hour"}}}}


@pytest.fixture
async def up() -> AsyncGenerator[Upstream]:
    async with upstream("up") as server:
        yield server


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> LongWay:
    seen, call = LongWay(), Calls.call

    async def counted(self: Calls, *args: object) -> object:
        seen.took()
        return await call(self, *args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Calls, "call", counted)
    return seen


@requirement("F-059")
async def test_calls_are_counted_for_each_caller_before_their_server_hears_of_them(up: Upstream, version: str) -> None:
    async with serving(gateway([up], TERMS)) as place:
        ann, bob = await user(place, "ann", version), await user(place, "bob", version)
        for caller in (ann, bob):
            for _ in range(2):
                await caller.use("up__echo", word="x")
        refused = await ann.refusal("tools/call", name="up__echo", arguments={"word": "x"})
        assert refused["code"] == TOO_OFTEN
        assert refused["message"].startswith("The tools like 'ech*' of server 'up' may be called 2 times an hour; try")
        assert 1_700_000 < refused["data"]["retryAfterMs"] <= 1_800_000
        await ann.use("up__fail")
        refused = await ann.refusal("tools/call", name="up__fail", arguments={})
        assert refused["message"].startswith("The tools of server 'up' may be called 3 times an hour; try")
    assert up.calls == 4


@requirement("F-059")
async def test_a_meta_tool_and_the_tool_itself_count_as_one(up: Upstream, version: str) -> None:
    async with serving(gateway([up], TERMS, is_meta=True)) as place:
        meta = Meta(await user(place, "ann", version))
        await meta.talk.use("up__echo", word="x")
        await meta.execute("echo", server="up", word="x")
        refused = (await meta.execute("echo", server="up", word="x")).error
        assert refused["code"] == "TOOL_ERR_TOO_OFTEN"
        assert refused["data"]["retryAfterMs"] > 0
    assert up.calls == 2


async def test_the_file_and_the_code_may_count_all_calls_together(up: Upstream, version: str) -> None:
    for server, what in (
        (gateway([up], whole={"rate": "1/day"}), "The tools of this proxy may be called 1 times a day"),
        (
            gateway([up], options={"access": Access(rate=Rate(1, per=86400))}),
            "The tools of this server may be called 1",
        ),
    ):
        async with serving(server) as place:
            ann = await user(place, "ann", version)
            await ann.use("up__echo", word="x")
            refused = await ann.refusal("tools/call", name="up__fail", arguments={})
            assert refused["message"].startswith(what)


async def _met(place: Place, version: str, long_way: LongWay, tool: str) -> Caller:
    """Return a caller without a token, whose next call of a free tool is a quick one."""
    caller = await Caller(place.app, version).greet()
    await caller.call(tool, is_long=True, word="x")
    long_way.calls = 0
    return caller


@pytest.mark.parametrize("name", GENERATIONS)
async def test_the_quick_ways_do_not_go_around_a_rate(
    up: Upstream, name: str, long_way: LongWay, patient: None
) -> None:
    terms = {"up": {"tools": {"ech*": {"rate": "2/hour"}}}}
    async with serving(gateway([up], terms, has_tokens=False)) as place:
        caller = await _met(place, name, long_way, "echo")
        assert "result" in (await caller.call("echo", word="x")).said
        assert (await caller.call("echo", word="x")).said["error"]["code"] == TOO_OFTEN
        assert long_way.calls == 2
        assert up.calls == 2
        long_way.calls = 0
        assert "result" in (await caller.call("everything")).said  # which nothing is said of
        assert long_way.calls == 0


@pytest.mark.parametrize("name", GENERATIONS)
async def test_the_quick_ways_do_not_go_around_a_rule(
    up: Upstream, name: str, long_way: LongWay, patient: None
) -> None:
    terms = {"up": {"tools": {"everything": {"roles": ["ops"]}}}}
    async with serving(gateway([up], terms, has_tokens=False)) as place:
        caller = await _met(place, name, long_way, "echo")
        assert (await caller.call("everything")).said["error"]["code"] == -31403
        assert "result" in (await caller.call("echo", word="x")).said
        assert long_way.calls == 1


@pytest.mark.parametrize("name", GENERATIONS)
async def test_the_quick_ways_are_not_for_those_who_must_show_a_token(
    up: Upstream, name: str, long_way: LongWay, patient: None
) -> None:
    async with serving(gateway([up])) as place:
        caller = Caller(place.app, name)
        assert (await caller.post(caller.message("initialize", {}))).status == 401
        assert (await caller.begin_call("echo", word="x").ended()).status == 401
        ann = await user(place, "ann", name)
        for _ in range(2):
            await ann.use("up__echo", word="x")
        if session := ann.session:  # and whoever gets hold of it has nothing
            caller.session = {"mcp-session-id": session}
            assert (await caller.begin_call("echo", word="x").ended()).status == 401
    assert (long_way.calls, up.calls) == (2, 2)
