"""A network that fails in any phase of a call: the result arrives once, and each question is asked once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from random import Random, SystemRandom
from typing import Any

import pytest

from tests.client_faults.app import ANSWERED, WORKING
from tests.client_faults.gate import PATIENCE
from tests.client_faults.program import ASKED, Errand
from tests.client_faults.proxy import ANSWER, QUESTION, RESULT, Cut, Fault
from tests.client_faults.stage import NEWER, OLDER, QUESTIONS, Served

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SEED_VARIABLE = "COATCHECK_STORM_SEED"
STORM = 12
"""Connections a storm breaks."""
CUTS = (Cut.BEFORE, Cut.UNANSWERED, Cut.MIDWAY)
POLLED = "tasks/get"
"""A phase that there is for certain only without push."""
PHASES = {
    NEWER: ("server/discover", "tools/list", "tools/call", POLLED, "tasks/update", "subscriptions/listen"),
    OLDER: (
        "initialize",
        "notifications/initialized",
        "GET",
        "tools/list",
        "tools/call",
        POLLED,
        "tasks/result",
        ANSWER,
    ),
}
COSTLY = ((NEWER, "tools/call"), (NEWER, "tasks/update"), (OLDER, "tools/call"), (OLDER, ANSWER))
"""What must not be done twice."""
STUBBORN = (*COSTLY, (NEWER, "subscriptions/listen"), (OLDER, "tasks/result"), (OLDER, "GET"))
RESULTS = ((NEWER, POLLED), (NEWER, "subscriptions/listen"), (OLDER, "tasks/result"))
"""What carries a result."""
STREAMS = (
    (NEWER, "subscriptions/listen", b""),
    (NEWER, "subscriptions/listen", QUESTION),
    (OLDER, "GET", b""),
    (OLDER, "tools/call", b""),
    (OLDER, "tasks/result", b""),
    (OLDER, "tasks/result", QUESTION),
)


def _cells(*cuts: Cut) -> Iterator[Any]:
    for mode, phases in PHASES.items():
        for phase in phases:
            for cut in cuts:
                yield pytest.param(mode, phase, cut, id=f"{mode}-{phase}-{cut}")


async def _carried_out(calm: Served, errand: Errand, fault: Fault) -> None:
    """Run the program to its end, and see to it that the fault comes before that."""
    calm.gate.close(WORKING)
    program = calm.here(errand)
    await fault.caught()
    calm.gate.open(WORKING)
    async with asyncio.timeout(PATIENCE):
        await program
    calm.check(errand)


@pytest.mark.parametrize(("mode", "phase", "cut"), list(_cells(*CUTS)), indirect=["mode"])
async def test_a_connection_is_reset(phase: str, cut: Cut, calm: Served) -> None:
    errand = calm.call(*QUESTIONS, push=phase != POLLED, waits=True)
    await _carried_out(calm, errand, calm.proxy.fault(phase, cut))


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.UNANSWERED])
@pytest.mark.parametrize(("mode", "phase"), STUBBORN, indirect=["mode"])
async def test_a_connection_is_reset_again_and_again(phase: str, cut: Cut, calm: Served) -> None:
    await _carried_out(calm, calm.call(*QUESTIONS), calm.proxy.fault(phase, cut, times=3))


@pytest.mark.parametrize("cut", [Cut.UNANSWERED, Cut.MIDWAY, Cut.AFTER])
@pytest.mark.parametrize(("mode", "phase"), RESULTS, indirect=["mode"])
async def test_a_connection_is_reset_as_the_result_comes(phase: str, cut: Cut, calm: Served) -> None:
    fault = calm.proxy.fault(phase, cut, having=RESULT)
    errand = calm.call(push=phase != POLLED)
    async with asyncio.timeout(PATIENCE):
        await calm.here(errand)
    assert fault.is_over
    calm.check(errand)


@pytest.mark.parametrize(("mode", "phase", "cut"), list(_cells(Cut.UNAVAILABLE)), indirect=["mode"])
async def test_a_gateway_has_no_server_for_a_moment(phase: str, cut: Cut, calm: Served) -> None:
    errand = calm.call(*QUESTIONS, push=phase != POLLED)
    await _carried_out(calm, errand, calm.proxy.fault(phase, cut))


@pytest.mark.parametrize(("mode", "phase"), COSTLY, indirect=["mode"])
async def test_a_gateway_keeps_an_answer_to_itself(phase: str, calm: Served) -> None:
    await _carried_out(calm, calm.call(*QUESTIONS), calm.proxy.fault(phase, Cut.BAD_GATEWAY))


@pytest.mark.parametrize(("mode", "phase", "having"), STREAMS, indirect=["mode"])
async def test_a_gateway_ends_a_stream(phase: str, having: bytes, calm: Served) -> None:
    await _carried_out(calm, calm.call(*QUESTIONS), calm.proxy.fault(phase, Cut.ENDED, having=having))


@pytest.mark.parametrize(
    ("mode", "phase"), [(NEWER, "subscriptions/listen"), (OLDER, "tasks/result")], indirect=["mode"]
)
async def test_the_stream_on_which_a_question_came_breaks_while_the_person_thinks(phase: str, calm: Served) -> None:
    fault = calm.proxy.fault(phase, Cut.AFTER, having=QUESTION)
    calm.gate.close(ASKED)
    errand = calm.call(*QUESTIONS)
    program = calm.here(errand)
    await calm.gate.reached(ASKED)
    await fault.caught()
    calm.gate.open(ASKED)
    async with asyncio.timeout(PATIENCE):
        await program
    calm.check(errand)


@pytest.mark.parametrize("mode", [OLDER], indirect=True)
async def test_whoever_waits_on_a_new_stream_is_asked_there_what_is_asked_next(calm: Served) -> None:
    """The question before was asked on a stream that broke, and its answer came by itself."""
    fault = calm.proxy.fault("tasks/result", Cut.AFTER, having=QUESTION)
    calm.gate.close(ANSWERED)
    errand = calm.call(*QUESTIONS)
    program = calm.here(errand)
    await fault.caught()
    await calm.gate.reached(ANSWERED)
    await calm.proxy.saw("tasks/result", 2)
    calm.gate.open(ANSWERED)
    async with asyncio.timeout(PATIENCE):
        await program
    calm.check(errand)


@pytest.mark.parametrize("push", [True, False])
@pytest.mark.parametrize(
    ("mode", "moment"),
    [
        (NEWER, WORKING),
        (NEWER, ASKED),
        (OLDER, WORKING),
        (OLDER, ASKED),
    ],
    indirect=["mode"],
)
async def test_the_network_is_gone_for_a_while(moment: str, push: bool, calm: Served) -> None:
    calm.gate.close(moment)
    errand = calm.call(*QUESTIONS, push=push)
    program = calm.here(errand)
    await calm.gate.reached(moment)
    calm.proxy.turn_away(5)
    calm.proxy.cut_all()
    calm.gate.open(moment)
    async with asyncio.timeout(PATIENCE):
        await program
    assert calm.proxy.turned_away == 5
    calm.check(errand)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("mode", ["auto"], indirect=True)
async def test_a_server_is_not_taken_for_an_older_one_because_the_network_fails(cut: Cut, calm: Served) -> None:
    fault = calm.proxy.fault("server/discover", cut, times=2)
    errand = calm.call()
    async with asyncio.timeout(PATIENCE):
        await calm.here(errand)
    assert fault.is_over
    assert calm.proxy.seen["initialize"] == 0
    calm.check(errand)


@pytest.mark.parametrize("push", [True, False])
@pytest.mark.parametrize("mode", [NEWER, OLDER], indirect=True)
async def test_a_storm(push: bool, calm: Served) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or SystemRandom().randrange(2**32))
    print(f"{SEED_VARIABLE}={seed}")
    chance, broken = Random(seed), 0

    def whim(phase: str) -> Cut | None:
        nonlocal broken
        if broken == STORM or chance.random() < 0.5:
            return None
        broken += 1
        return chance.choice((*CUTS, Cut.UNAVAILABLE, Cut.BAD_GATEWAY, Cut.AFTER))

    calm.proxy.whim = whim
    errand = calm.call(*QUESTIONS, "Who?", "Where?", push=push)
    async with asyncio.timeout(PATIENCE):
        await calm.here(errand)
    calm.check(errand)
