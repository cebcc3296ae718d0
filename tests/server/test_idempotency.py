"""Idempotency keys: a call that is repeated under its key is one task, which is run once, in both generations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError

from coatcheck import Policy
from coatcheck.server import TaskPolicy, TaskServer
from tests.matrix.peers import Pending
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import EXTENSION, IDEMPOTENCY_KEY, PATIENCE, Json, OverHTTP, headers, over_http
from tests.v2025.bench import Bench, guarded
from tests.v2025.wire import ASKABLE, NEW, VERSION, WITH_TASKS, Place, Talk, Transport, outcome, served, text_of

pytestmark = pytest.mark.anyio

PATIENT = TaskPolicy("optional", promote_after=20)
REPEATS = 20
TURNS = 200
"""Of the loop, in which a call has long found its task."""
ABLE = {VERSION: ASKABLE, NEW: WITH_TASKS}


def keyed(tool: str, key: Any, **arguments: Any) -> Json:
    """Return the params of a call with a key."""
    return {"name": tool, "arguments": arguments, "_meta": {IDEMPOTENCY_KEY: key}}


class Repeater:
    """A client with tasks, of either generation, that calls with keys."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def begin(self, tool: str, key: Any, **arguments: Any) -> Pending:
        wish: Json = {} if self.talk.client.is_modern else {"task": {}}
        return self.talk.begin("tools/call", {**keyed(tool, key, **arguments), **wish})

    async def call(self, tool: str, key: Any, **arguments: Any) -> Json:
        """Return the task that is made of a call, or found for it. Raises MCPError if there is none."""
        return self.made(await self.begin(tool, key, **arguments).answer())

    def made(self, answer: Json) -> Json:
        created = outcome(answer)
        return created if self.talk.client.is_modern else created["task"]

    async def result(self, task: Json) -> str:
        """Return what a task comes to, once it does."""
        task_id: str = task["taskId"]
        if not self.talk.client.is_modern:
            return text_of(await self.talk.collect(task_id))
        seen = await self.talk.get(task_id)
        if seen["status"] == "working":
            listening = self.talk.begin("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
            ended = await self.talk.until(lambda heard: heard.params.get("status") == "completed")
            await listening.cancel()
            seen = ended.params
        return text_of(seen["result"])


@asynccontextmanager
async def repeating(bench: Bench, version: str, transport: Transport, **who: Any) -> AsyncGenerator[Repeater]:
    async with served(bench.server, transport) as place:
        yield await connected(place, version, transport, **who)
        bench.go.set()


async def connected(place: Place, version: str, transport: Transport, **who: Any) -> Repeater:
    return Repeater(await place.connect(transport, version=version, capabilities=ABLE[version], **who))


@pytest.fixture(params=[VERSION, NEW])
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["memory", "json"], ids=["memory", "http"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param


@pytest.fixture
def bench() -> Bench:
    return Bench("add", "task_only", "wait")


@pytest.fixture
async def caller(bench: Bench, version: str, transport: Transport) -> AsyncGenerator[Repeater]:
    """A client of each generation, in memory and over HTTP."""
    async with repeating(bench, version, transport) as caller:
        yield caller


# What is said of it


@requirement("X-08", "S-001")
async def test_that_keys_are_heeded_is_declared_beside_the_extension(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def add(a: int) -> int:
        return a + 1

    async with connect(server) as caller:
        capabilities = (await caller.request("server/discover", {}))["capabilities"]
    assert capabilities["experimental"] == {IDEMPOTENCY_KEY: {}}
    assert capabilities["extensions"] == {EXTENSION: {}}


# One task, one run


@requirement("X-08")
async def test_the_same_call_twice_is_one_task(caller: Repeater) -> None:
    first, second = [await caller.call("wait", "k") for _ in range(2)]
    assert first["taskId"] == second["taskId"]


@requirement("X-08")
async def test_the_same_call_twice_is_run_once(caller: Repeater, bench: Bench) -> None:
    results = [await caller.result(await caller.call("add", "k", a=1)) for _ in range(2)]
    assert results == ["2", "2"]
    assert bench.runs == ["add"]


@requirement("X-08")
async def test_repeats_at_the_same_time_are_one_task_and_one_run(caller: Repeater, bench: Bench) -> None:
    calls = [caller.begin("wait", "k") for _ in range(REPEATS)]
    tasks = [caller.made(await call.answer()) for call in calls]
    bench.go.set()
    results = {await caller.result(task) for task in tasks}
    assert (len({task["taskId"] for task in tasks}), results) == (1, {"waited"})
    assert bench.runs == ["waited"]


@requirement("X-08")
async def test_calls_with_keys_of_their_own_are_tasks_of_their_own(caller: Repeater) -> None:
    made = [await caller.call("add", key, a=1) for key in ("one", "other")]
    assert made[0]["taskId"] != made[1]["taskId"]


@requirement("X-08")
async def test_a_repeat_of_a_finished_call_is_answered_with_the_finished_task(caller: Repeater) -> None:
    first = await caller.call("add", "k", a=1)
    await caller.result(first)
    again = await caller.call("add", "k", a=1)
    assert (again["taskId"], again["status"]) == (first["taskId"], "completed")


@requirement("X-08")
async def test_a_repeat_of_a_cancelled_call_does_not_run_it_after_all(caller: Repeater, bench: Bench) -> None:
    first = await caller.call("wait", "k")
    await caller.talk.ask("tasks/cancel", taskId=first["taskId"])
    assert (await caller.call("wait", "k"))["status"] == "cancelled"
    assert bench.runs == []


@requirement("X-08")
async def test_arguments_are_the_same_in_any_order(caller: Repeater) -> None:
    first = await caller.call("add", "k", a=1, b=2)
    assert (await caller.call("add", "k", b=2, a=1))["taskId"] == first["taskId"]


@requirement("X-08")
async def test_a_repeat_is_answered_where_there_is_no_room_for_another_task(version: str) -> None:
    bench = guarded("wait", policy=Policy(quota=1))
    async with repeating(bench, version, "json", token="ann") as caller:
        first = await caller.call("wait", "k")
        assert (await caller.call("wait", "k"))["taskId"] == first["taskId"]


async def test_a_key_is_nothing_a_tool_gets_to_see(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def meta(ctx: Context) -> list[str]:
        return sorted(ctx.request_context.meta or {})

    params = keyed("meta", "k")
    params["_meta"]["com.example/trace"] = 1
    async with connect(server) as caller:
        done = await caller.finished((await caller.request("tools/call", params))["taskId"])
    names = done["result"]["structuredContent"]["result"]
    assert "com.example/trace" in names
    assert IDEMPOTENCY_KEY not in names


# What is refused


@requirement("X-08")
@pytest.mark.parametrize(("tool", "arguments"), [("add", {"a": 2}), ("add", {"a": 1, "b": 1}), ("task_only", {})])
async def test_another_call_under_the_same_key_is_refused(
    caller: Repeater, bench: Bench, tool: str, arguments: Json
) -> None:
    first = await caller.call("add", "k", a=1)
    await caller.result(first)
    with pytest.raises(MCPError, match="Idempotency key 'k' was already used for a different call") as refused:
        await caller.call(tool, "k", **arguments)
    assert refused.value.code == -32602
    assert bench.runs == ["add"]


@requirement("X-08", "T-02")
@pytest.mark.parametrize("key", [7, 1.5, True, {}, ["k"], "", "two\nlines", "x" * 513], ids=lambda key: repr(key)[:12])
async def test_what_is_no_key_is_refused(caller: Repeater, bench: Bench, key: Any) -> None:
    with pytest.raises(MCPError, match="must be") as refused:
        await caller.call("add", key, a=1)
    assert refused.value.code == -32602
    assert bench.runs == []


# Whose it is


@requirement("X-08", "R-10")
async def test_a_key_of_another_principal_is_another_task(version: str) -> None:
    async with served(guarded("add").server) as place:
        made = [
            await (await connected(place, version, "json", token=user)).call("add", "k", a=number)
            for number, user in enumerate(("ann", "bob", "ann-elsewhere"))
        ]
    assert len({task["taskId"] for task in made}) == 3


@requirement("X-08", "R-10")
async def test_a_key_is_known_to_its_principal_on_every_connection(version: str) -> None:
    async with served(guarded("add").server) as place:
        made = [await (await connected(place, version, "json", token="ann")).call("add", "k", a=1) for _ in range(2)]
    assert made[0]["taskId"] == made[1]["taskId"]


@requirement("X-08", "R-10")
async def test_where_nobody_is_known_a_key_is_for_its_session(bench: Bench) -> None:
    async with served(bench.server) as place:
        made = [await (await connected(place, VERSION, "json")).call("add", "k", a=1) for _ in range(2)]
    assert made[0]["taskId"] != made[1]["taskId"]


@requirement("X-08", "R-10", "T-07")
async def test_where_nobody_is_known_and_there_are_no_sessions_whoever_has_the_key_has_the_task(bench: Bench) -> None:
    async with served(bench.server) as place:
        made = [await (await connected(place, NEW, "json")).call("add", "k", a=1) for _ in range(2)]
    assert made[0]["taskId"] == made[1]["taskId"]


@requirement("X-08", "X-01")
async def test_a_call_is_repeated_in_the_other_generation(transport: Transport) -> None:
    bench = guarded("add")
    who = {} if transport == "memory" else {"token": "ann"}
    async with served(bench.server, transport) as place:
        older = await connected(place, VERSION, transport, **who)
        newer = await connected(place, NEW, transport, **who)
        first, again = await older.call("add", "k", a=1), await newer.call("add", "k", a=1)
        assert first["taskId"] == again["taskId"]
        assert await newer.result(again) == "2"
    assert bench.runs == ["add"]


# Elsewhere, and later


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tasks.db"


def who_on(transport: Transport) -> Json:
    """Return what makes a client the same again after a restart."""
    return {} if transport == "memory" else {"token": "ann"}


@requirement("X-08")
async def test_a_repeat_after_a_restart_gets_the_finished_task(url: str, version: str, transport: Transport) -> None:
    benches = [guarded("add", store=url) for _ in range(2)]
    made: list[Json] = []
    for bench in benches:
        async with repeating(bench, version, transport, **who_on(transport)) as caller:
            made.append(await caller.call("add", "k", a=1))
            assert await caller.result(made[-1]) == "2"
    assert made[0]["taskId"] == made[1]["taskId"]
    assert [bench.runs for bench in benches] == [["add"], []]


@requirement("X-08")
async def test_a_repeat_after_a_restart_gets_the_task_that_goes_on(
    url: str, version: str, transport: Transport
) -> None:
    resumable = TaskPolicy("optional", resumable=True)
    made: list[Json] = []
    for is_restarted in (False, True):
        bench = guarded("add", store=url)
        bench.server.add_tool(bench.wait, "wait", task=resumable)
        async with served(bench.server, transport) as place:
            caller = await connected(place, version, transport, **who_on(transport))
            made.append(await caller.call("wait", "k"))
            if is_restarted:
                bench.go.set()
                assert await caller.result(made[-1]) == "waited"
    assert made[0]["taskId"] == made[1]["taskId"]


@requirement("X-08")
async def test_repeats_that_reach_several_servers_are_one_task_and_one_run(url: str, version: str) -> None:
    benches = [Bench("wait", store=url) for _ in range(2)]
    async with repeating(benches[0], version, "memory") as one, repeating(benches[1], version, "memory") as other:
        calls = [(caller, caller.begin("wait", "k")) for _ in range(REPEATS) for caller in (one, other)]
        tasks = [caller.made(await call.answer()) for caller, call in calls]
        for bench in benches:
            bench.go.set()
        assert await one.result(tasks[0]) == await other.result(tasks[0]) == "waited"
    assert len({task["taskId"] for task in tasks}) == 1
    assert [*benches[0].runs, *benches[1].runs] == ["waited"]


# On the shorter way through HTTP


@requirement("X-08")
@pytest.mark.parametrize(
    "spelling",
    [
        IDEMPOTENCY_KEY,
        r"coatcheck\/idempotencyKey",
        r"coatcheck/idempotenc\u0079Key",
    ],
)
async def test_a_key_counts_however_its_name_is_escaped(server: TaskServer, spelling: str) -> None:
    @server.tool(task=True)
    async def add(a: int) -> int:
        return a + 1

    async with over_http(server) as caller:
        body = caller.message("tools/call", keyed("add", "k", a=1))
        raw = json.dumps(body).replace(IDEMPOTENCY_KEY, spelling).encode()
        answers = [(await caller.post(raw, headers(body))).message()["result"] for _ in range(2)]
    assert answers[0]["taskId"] == answers[1]["taskId"]


# With promote_after


class Patient:
    """A tool that is answered directly, and says how often it was run."""

    def __init__(self, server: TaskServer) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.runs = 0
        server.add_tool(self.quick, "quick", task=PATIENT)
        server.add_tool(self.slow, "slow", task=PATIENT)
        server.add_tool(self.slow, "impatient", task=TaskPolicy("optional", promote_after=0.01))

    async def quick(self) -> str:
        self.runs += 1
        return f"run {self.runs}"

    async def slow(self) -> str:
        self.runs += 1
        run = self.runs
        self.begun.set()
        await self.go.wait()
        return f"run {run}"


@pytest.fixture
def patient(server: TaskServer) -> Patient:
    return Patient(server)


@requirement("X-08", "X-11")
async def test_a_repeat_of_a_call_that_was_answered_directly_has_the_same_answer(
    server: TaskServer, patient: Patient, connect: Connect
) -> None:
    async with connect(server) as caller:
        first, again = [await caller.request("tools/call", keyed("quick", "k")) for _ in range(2)]
    assert first["resultType"] == again["resultType"] == "complete"
    assert text_of(first) == text_of(again) == "run 1"


@requirement("X-08", "X-11")
async def test_a_repeat_of_a_promoted_call_is_its_task(server: TaskServer, patient: Patient, connect: Connect) -> None:
    async with connect(server) as caller:
        made = [await caller.request("tools/call", keyed("impatient", "k")) for _ in range(2)]
        patient.go.set()
        done = await caller.finished(made[0]["taskId"])
        assert made[0]["taskId"] == made[1]["taskId"]
        again = await caller.request("tools/call", keyed("impatient", "k"))
    assert text_of(again) == text_of(done["result"]) == "run 1"


@requirement("X-08", "X-11")
async def test_repeats_that_wait_at_the_same_time_have_one_answer(server: TaskServer, patient: Patient) -> None:
    async with over_http(server) as caller:
        calls = [_begun(caller.again(), "slow") for _ in range(REPEATS)]
        await asyncio.wait_for(patient.begun.wait(), PATIENCE)
        patient.go.set()
        assert {text_of(answer) for answer in await asyncio.gather(*calls)} == {"run 1"}


def _begun(caller: OverHTTP, tool: str) -> asyncio.Task[Json]:
    return asyncio.create_task(caller.request("tools/call", keyed(tool, "k")))


@requirement("X-08", "X-11")
async def test_who_hung_up_and_calls_again_gets_the_answer(server: TaskServer, patient: Patient) -> None:
    async with over_http(server) as caller:
        async with caller.open(caller.message("tools/call", keyed("slow", "k"))):
            await asyncio.wait_for(patient.begun.wait(), PATIENCE)
        patient.go.set()
        assert text_of(await caller.request("tools/call", keyed("slow", "k"))) == "run 1"


@requirement("X-08", "X-11")
async def test_who_hangs_up_does_not_take_the_answer_from_who_still_waits(server: TaskServer, patient: Patient) -> None:
    async with over_http(server) as caller:
        async with caller.open(caller.message("tools/call", keyed("slow", "k"))):
            await asyncio.wait_for(patient.begun.wait(), PATIENCE)
            waiting = _begun(caller.again(), "slow")
            for _ in range(TURNS):
                await asyncio.sleep(0)
        patient.go.set()
        assert text_of(await waiting) == "run 1"


# Of clients without tasks, whose calls are held


@requirement("X-08")
@pytest.mark.parametrize("client", [(VERSION, ASKABLE), (NEW, ASKABLE)], ids=[VERSION, NEW])
async def test_a_held_call_is_repeated_as_any_other(
    bench: Bench, transport: Transport, client: tuple[str, Json]
) -> None:
    version, capabilities = client
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version, capabilities=capabilities)
        results = [text_of(await caller.ask("tools/call", **keyed("add", "k", a=1))) for _ in range(2)]
    assert results == ["2", "2"]
    assert bench.runs == ["add"]


@requirement("X-08")
async def test_a_held_call_does_not_take_the_task_from_who_was_given_it(server: TaskServer, patient: Patient) -> None:
    server.add_tool(patient.slow, "task", task=True)
    async with over_http(server) as caller:
        task_id = (await caller.request("tools/call", keyed("task", "k")))["taskId"]
        held = _begun(caller.again(capabilities={}), "task")
        for _ in range(TURNS):
            await asyncio.sleep(0)
        patient.go.set()
        await held
        assert text_of((await caller.finished(task_id))["result"]) == "run 1"
