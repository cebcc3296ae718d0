"""What servers ask reaches the client whose call it is, and nobody else; the answers arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.interop_servers.clients import together
from tests.proxy.bridge.clients import KINDS, Kind, Person, Said, connected
from tests.proxy.bridge.conftest import Scene
from tests.proxy.bridge.programs.tools import BEGAN

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

UPSTREAMS = ("talkative", "sdk_v1", "older", "newer")
"""A server without tasks asks in the middle of its work in the older generation only."""
cells = pytest.mark.parametrize(("kind", "upstream"), [(kind, upstream) for kind in KINDS for upstream in UPSTREAMS])
every_kind = pytest.mark.parametrize("kind", KINDS)


async def _called(kind: Kind, url: str, person: Person, tool: str, arguments: dict[str, Any]) -> Said:
    async with connected(kind, url, person) as caller:
        return await caller.call(tool, arguments)


def _questions(person: Person) -> list[str]:
    return [f"{number} for {person.name}?" for number in ("First", "Second")]


@cells
async def test_two_questions_are_asked_once_each(kind: Kind, upstream: str, patient: str, scene: Scene) -> None:
    """Two clients call at once; what one is asked, the other is not."""
    ann, ben = Person("Ann"), Person("Ben")
    scene.gate.close(BEGAN)
    calls = [
        asyncio.create_task(
            _called(kind, patient, who, f"{upstream}__interview", {**scene.arguments, "questions": _questions(who)})
        )
        for who in (ann, ben)
    ]
    await scene.gate.reached(BEGAN, times=2)
    scene.gate.open(BEGAN)
    assert [said.text for said in await asyncio.gather(*calls)] == ["Ann 1 and Ann 2", "Ben 1 and Ben 2"]
    assert (ann.asked, ben.asked) == (_questions(ann), _questions(ben))


@every_kind
async def test_what_is_asked_in_rounds_before_the_work_begins(kind: Kind, patient: str) -> None:
    ann, ben = Person("Ann"), Person("Ben")
    arguments = {"first": "First?", "second": "Second?"}
    said = await together(*(_called(kind, patient, who, "plain__rounds", arguments) for who in (ann, ben)))
    assert [each.text for each in said] == ["Ann 1 and Ann 2", "Ben 1 and Ben 2"]
    assert ann.asked == ["First?", "Second? (Ann 1)"]
    assert ben.asked == ["First?", "Second? (Ben 1)"]


@cells
async def test_sampling_is_answered(kind: Kind, upstream: str, patient: str) -> None:
    ann = Person("Ann")
    assert (await _called(kind, patient, ann, f"{upstream}__sample", {})).text == "It said: Ann"
    assert ann.asked == ["Say something"]


@cells
async def test_roots_are_told(kind: Kind, upstream: str, patient: str) -> None:
    ann = Person("Ann")
    assert (await _called(kind, patient, ann, f"{upstream}__look_around", {})).text == "There is file:///Ann"
    assert ann.asked == ["roots"]


@cells
async def test_whoever_takes_long_to_answer_is_asked_once(kind: Kind, upstream: str, hasty: str, scene: Scene) -> None:
    """Long enough for the call to have become a task, or a ticket."""
    ann = Person("Ann")
    ann.thinks = asyncio.Event()
    arguments = {**scene.arguments, "questions": _questions(ann)}
    calling = asyncio.create_task(_called(kind, hasty, ann, f"{upstream}__interview", arguments))
    await ann.was_asked.wait()
    await asyncio.wait((calling,), timeout=1.0)
    ann.thinks.set()
    assert (await calling).text == "Ann 1 and Ann 2"
    assert ann.asked == _questions(ann)


@cells
async def test_what_a_task_asks_later_is_answered(kind: Kind, upstream: str, hasty: str, scene: Scene) -> None:
    """Its client has a task or a ticket by then."""
    ann = Person("Ann")
    scene.gate.close(BEGAN)
    async with connected(kind, hasty, ann) as caller:
        task_id = await caller.start(f"{upstream}__interview", {**scene.arguments, "questions": _questions(ann)})
        scene.gate.open(BEGAN)
        assert (await caller.collect(task_id)).text == "Ann 1 and Ann 2"
    assert ann.asked == _questions(ann)
