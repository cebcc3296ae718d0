"""Whoever asks whatever, in whatever order: nobody is ever told a secret, or a task's id, of somebody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from coatcheck import AlreadyFinished
from coatcheck.server import JWTVerifier, TaskServer, http_app
from tests.access.issuer import AUDIENCE, new_key
from tests.requirements.marks import requirement
from tests.security.app import anyones, private
from tests.security.callers import NEW, OLD, Json
from tests.security.people import Person, UnderWay, part, turns

pytestmark = pytest.mark.slow

ISSUER = "https://issuer.example"
KEY = new_key()
NAMES: list[tuple[str | None, str | None]] = [
    ("app", "ann"),
    ("app", "bob"),
    ("other", "ann"),
    ("app", None),
    (None, "ann"),
]
TOOLS = ("keep", "endless", "ask", "fail", "crash")
BY_ID = (
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "tasks/result",
    "get_task",
    "wait_task",
    "answer_task",
    "cancel_task",
)
ACTIONS = ("hand in", "hand in", "call", *BY_ID, "list", "list tool", "listen", "overhear", "hijack", "catalogue")


@dataclass
class World:
    """Everybody, every task, and whose every secret is."""

    people: list[Person]
    dice: random.Random
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    """By the secret: the identity whose it is."""
    tasks: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Ids, and whose they are."""
    cursors: list[str] = field(default_factory=lambda: ["forged"])
    keys: list[str] = field(default_factory=lambda: ["unknown#1"])
    """Names of questions anybody was ever told, for everybody to answer."""

    def secret(self, person: Person, what: str) -> str:
        made = f"{what}-{self.dice.getrandbits(64):016x}"
        self.secrets[made] = person.identity
        return made

    def any_task(self) -> str:
        return self.dice.choice(self.tasks)[0] if self.tasks else "no such task"

    def learn(self, person: Person, answer: UnderWay) -> None:
        """Note what a request has brought into the world."""
        for found in _results(answer):
            task_id: Any = found.get("task", found).get("taskId")
            if task_id and task_id not in dict(self.tasks):
                self.tasks.append((task_id, person.identity))
            page: Json = found.get("structuredContent") or found
            if cursor := page.get("nextCursor"):
                self.cursors.append(cursor)
            self.keys += list(found.get("inputRequests") or ())

    def leaks(self) -> list[str]:
        """Return who was told what of others."""
        found: list[str] = []
        for person in self.people:
            heard = person.heard()
            others = [
                *self.secrets.items(),
                *self.tasks,
                *((one.session, one.identity) for one in self.people if one.session),
            ]
            found += [
                f"{person.identity} of {person.generation} was told {what} of {whose}"
                for what, whose in others
                if whose != person.identity and what in heard and what not in person.sent
            ]
        return found


def _results(answer: UnderWay) -> list[Json]:
    messages: list[Any] = [said for said in answer.said() if isinstance(said, dict)]
    return [said["result"] for said in messages if isinstance(said.get("result"), dict)]


async def hand_in(world: World, person: Person) -> None:
    """Call any tool as a task, with a secret in whatever it may be in; now and then under a key that others use."""
    tool = world.dice.choice(TOOLS)
    params: dict[str, Any] = {"name": tool, "arguments": {"secret": world.secret(person, tool)}}
    if world.dice.random() < 0.5:
        key = "a key of many" if world.dice.random() < 0.5 else world.secret(person, "key")
        if key == "a key of many":
            params |= {"name": "keep", "arguments": {"secret": "what all have in common"}}
        params["_meta"] = {"coatcheck/idempotencyKey": key, "coatcheck/private": world.secret(person, "meta")}
    if person.is_older:
        params["task"] = {}
    world.learn(person, await person.ask("tools/call", params))


async def call(world: World, person: Person) -> None:
    """Call a tool as a client without tasks does, and wait or not."""
    tool = world.dice.choice(TOOLS)
    params = {"name": tool, "arguments": {"secret": world.secret(person, tool)}}
    is_ending = tool not in ("endless", "ask")
    world.learn(person, await person.ask("tools/call", params, knows_tasks=False, is_ending=is_ending))


async def use(world: World, person: Person, tool: str) -> None:
    more: dict[str, Any] = {
        "wait_task": {"seconds": 0},
        "answer_task": {"content": {"name": world.secret(person, "answer")}},
    }.get(tool, {})
    params = {"name": tool, "arguments": {"task_id": world.any_task(), **more}}
    world.learn(person, await person.ask("tools/call", params, knows_tasks=False))


async def ask(world: World, person: Person, method: str) -> None:
    params: dict[str, Any] = {"taskId": world.any_task()}
    if method == "tasks/update":
        answer = {"action": "accept", "content": {"name": world.secret(person, "answer")}}
        params["inputResponses"] = {world.dice.choice(world.keys): answer}
    is_ending = method != "tasks/result" or not person.is_older
    world.learn(person, await person.ask(method, params, is_ending=is_ending))


async def by_id(world: World, person: Person, what: str) -> None:
    await (ask if what.startswith("tasks/") else use)(world, person, what)


async def list_tasks(world: World, person: Person, *, by_tool: bool) -> None:
    given = {"cursor": world.dice.choice(world.cursors)} if world.dice.random() < 0.5 else {}
    params = {"name": "list_tasks", "arguments": given} if by_tool else given
    method = "tools/call" if by_tool else "tasks/list"
    world.learn(person, await person.ask(method, params, knows_tasks=not by_tool))


async def listen(world: World, person: Person) -> None:
    ids = [world.any_task() for _ in range(3)]
    await person.ask("subscriptions/listen", {"notifications": {"taskIds": ids}}, is_ending=person.is_older)


async def overhear(world: World, person: Person) -> None:
    if person.is_older:
        await person.listen_in()


async def hijack(world: World, person: Person) -> None:
    """Use the session of another, with one's own token or none."""
    sessions = [other.session for other in world.people if other.session and other.token]
    if sessions and person.is_older and person.token:
        own, person.session = person.session, world.dice.choice(sessions)
        await person.ask("tasks/list", {})
        person.session = own


async def catalogue(world: World, person: Person) -> None:
    for method in ("tools/list", "resources/list", "prompts/list"):
        await person.ask(method, {})


OTHERS: dict[str, Callable[[World, Person], Awaitable[None]]] = {
    "hand in": hand_in,
    "call": call,
    "list": lambda world, person: list_tasks(world, person, by_tool=False),
    "list tool": lambda world, person: list_tasks(world, person, by_tool=True),
    "listen": listen,
    "overhear": overhear,
    "hijack": hijack,
    "catalogue": catalogue,
}


def _token(client: str | None, user: str | None) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": 4_000_000_000, "scope": "books", "client_id": client, "sub": user}
    return KEY.sign({name: value for name, value in claims.items() if value is not None})


def _people(app: Any, is_private: bool) -> list[Person]:
    """Return some who are known and some who are not, in both generations; some of them are the same to the server."""
    if is_private:
        return [Person(app, f"{name}", generation, _token(*name)) for name in NAMES for generation in (NEW, OLD)]
    sessions = [Person(app, f"session {number}", OLD) for number in range(4)]
    return [*sessions, *(Person(app, "whoever has the id", NEW) for _ in range(2))]


@asynccontextmanager
async def _world(is_private: bool, seed: int) -> AsyncGenerator[World]:
    tokens = JWTVerifier(ISSUER, audience=AUDIENCE, jwks={"keys": [KEY.public]}, scopes=["books"])
    made = private(tokens, store="memory://") if is_private else anyones(store="memory://")
    app = http_app(made, made.tasks)
    async with app.router.lifespan_context(app):
        world = World(_people(app, is_private), random.Random(seed))
        for person in world.people:
            await person.begin()
        try:
            yield world
            await turns()
        finally:
            await _end_all(made)
            await part(world.people)


async def _end_all(server: TaskServer) -> None:
    engine = server.tasks.running.engine
    for task in await engine.list_all():
        with suppress(AlreadyFinished):
            await engine.cancel(task.id, task.owner)


async def play(is_private: bool, seed: int, moves: list[tuple[str, int]]) -> World:
    async with _world(is_private, seed) as world:
        for what, number in moves:
            person = world.people[number % len(world.people)]
            await (OTHERS[what](world, person) if what in OTHERS else by_id(world, person, what))
    return world


@requirement("R-10", "R-18", "R-27", "E-036", "E-037", "E-038", "E-039", "E-049", "F-056", "ER-3", "S-069", "G-014")
@pytest.mark.filterwarnings("error")
@settings(max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.booleans(),
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)), min_size=20, max_size=60),
)
def test_nobody_is_told_what_is_somebody_elses(is_private: bool, seed: int, moves: list[tuple[str, int]]) -> None:
    world = asyncio.run(play(is_private, seed, moves))
    event(f"tasks: {len(world.tasks) // 5 * 5}")
    assert world.leaks() == []


def test_the_search_finds_what_is_there() -> None:
    """Those whose secrets they are are told them: so it is no accident that others are not."""
    moves = [("hand in", number % 10) for number in range(60)] + [("tasks/get", number % 10) for number in range(200)]
    world = asyncio.run(play(True, 1, moves))
    own = [
        what
        for person in world.people
        for what, whose in (*world.secrets.items(), *world.tasks)
        if whose == person.identity and what in person.heard()
    ]
    assert len({what.partition("-")[0] for what in own} & set(TOOLS)) >= 3
    assert len(set(own) & {task_id for task_id, _ in world.tasks}) > 20
    stranger = world.people[0]
    foreign = next(what for what, whose in world.tasks if whose != stranger.identity and what not in stranger.sent)
    stranger.requests[-1].body = f'{{"told": "{foreign}"}}'.encode()
    stranger.requests[-1].head = {}
    assert len(world.leaks()) == 1
