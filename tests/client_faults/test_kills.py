"""Server, client or both are killed in any phase of a call: the result arrives once, each question is answered once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from coatcheck import Client
from coatcheck.errors import TaskLost
from tests.cli.serving import Served as Process
from tests.cli.serving import Serving
from tests.client_faults.app import WORKING
from tests.client_faults.gate import PATIENCE
from tests.client_faults.program import ARRIVED, ASKED, STARTED
from tests.client_faults.proxy import ANSWER, QUESTION, RESULT, Cut
from tests.client_faults.stage import GENERATIONS, NEWER, OLDER, QUESTIONS, Served, Stage, Victim

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

APP = "tests.client_faults.app:unbound"
HELLO = {NEWER: "server/discover", OLDER: "initialize"}
STREAM = {NEWER: "subscriptions/listen", OLDER: "tasks/result"}
"""On which questions and results come."""
REPLY = {NEWER: "tasks/update", OLDER: ANSWER}
"""How questions are answered."""


def _cells() -> Iterator[Any]:
    for mode in GENERATIONS:
        points = (
            ("tools/call", Cut.BEFORE, b"", Victim),
            ("tools/call", Cut.UNANSWERED, b"", Victim),
            ("tools/call", Cut.MIDWAY, b"", (Victim.SERVER,)),
            (STREAM[mode], Cut.UNANSWERED, b"", (Victim.SERVER,)),
            (STREAM[mode], Cut.AFTER, QUESTION, (Victim.SERVER,)),
            (REPLY[mode], Cut.BEFORE, b"", Victim),
            (REPLY[mode], Cut.UNANSWERED, b"", Victim),
            (STREAM[mode], Cut.UNANSWERED, RESULT, Victim),
            (STREAM[mode], Cut.MIDWAY, RESULT, (Victim.SERVER,)),
        )
        for phase, cut, having, victims in points:
            for victim in victims:
                name = f"{mode}-{phase}-{having.decode() or 'anything'}-{cut}-{victim}"
                yield pytest.param(mode, phase, cut, having, victim, id=name)


@pytest.mark.parametrize(("mode", "phase", "cut", "having", "victim"), list(_cells()), indirect=["mode"])
async def test_a_kill_in_the_middle_of_an_exchange(
    phase: str, cut: Cut, having: bytes, victim: Victim, deadly: Served
) -> None:
    trap = deadly.proxy.trap(phase, cut, having=having)
    errand = deadly.call(*QUESTIONS)
    program = deadly.apart(errand)
    await trap.caught()
    program = await deadly.kill(victim, program, trap)
    await program.ended()
    deadly.check(errand)


@pytest.mark.parametrize("victim", Victim)
@pytest.mark.parametrize("moment", [STARTED, WORKING, ARRIVED])
@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_kill_while_nothing_is_exchanged(moment: str, victim: Victim, deadly: Served) -> None:
    deadly.gate.close(moment)
    errand = deadly.call(*QUESTIONS)
    program = deadly.apart(errand)
    await deadly.gate.reached(moment)
    program = await deadly.kill(victim, program)
    deadly.gate.open(moment)
    await program.ended()
    deadly.check(errand)


@pytest.mark.parametrize("victim", Victim)
@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_kill_while_the_person_thinks(victim: Victim, deadly: Served) -> None:
    deadly.gate.close(ASKED)
    errand = deadly.call(*QUESTIONS)
    program = deadly.apart(errand)
    await deadly.gate.reached(ASKED)
    program = await deadly.kill(victim, program)
    deadly.gate.open(ASKED)
    await program.ended()
    nobody_answered = QUESTIONS[:1] if victim is not Victim.SERVER else ()
    deadly.check(errand, asked=(*nobody_answered, *QUESTIONS))


@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_both_are_killed_in_one_phase_after_the_other(deadly: Served) -> None:
    errand = deadly.call(*QUESTIONS)
    program = deadly.apart(errand)
    for phase, cut, having in (
        ("tools/call", Cut.BEFORE, b""),
        ("tools/call", Cut.UNANSWERED, b""),
        (REPLY[deadly.mode], Cut.UNANSWERED, b""),
        (REPLY[deadly.mode], Cut.BEFORE, b""),
        (STREAM[deadly.mode], Cut.UNANSWERED, RESULT),
    ):
        trap = deadly.proxy.trap(phase, cut, having=having)
        await trap.caught()
        program = await deadly.kill(Victim.BOTH, program, trap)
    await program.ended()
    deadly.check(errand)


@pytest.mark.parametrize("moment", [WORKING, ASKED])
@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_server_is_told_to_stop_and_started_again(moment: str, deadly: Served) -> None:
    deadly.gate.close(moment)
    errand = deadly.call(*QUESTIONS)
    program = deadly.here(errand)
    await deadly.gate.reached(moment)
    await deadly.end_server(signal.SIGTERM)
    await deadly.start_server()
    deadly.gate.open(moment)
    async with asyncio.timeout(PATIENCE):
        await program
    deadly.check(errand)


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.UNANSWERED, Cut.MIDWAY])
@pytest.mark.parametrize("phase", [HELLO[OLDER], "notifications/initialized"])
@pytest.mark.parametrize("mode", [OLDER], indirect=True)
async def test_a_handshake_with_the_next_server_is_broken_off(phase: str, cut: Cut, deadly: Served) -> None:
    fault = deadly.proxy.fault(phase, cut, passes=1)
    deadly.gate.close(WORKING)
    errand = deadly.call(*QUESTIONS)
    program = deadly.here(errand)
    await deadly.gate.reached(WORKING)
    await deadly.end_server()
    await deadly.start_server()
    await fault.caught()
    deadly.gate.open(WORKING)
    async with asyncio.timeout(PATIENCE):
        await program
    deadly.check(errand)


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncGenerator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    await serving.clean_up()


@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_server_is_killed_and_started_again_at_the_same_address(serve: Serving, stage: Stage) -> None:
    """Nothing stands between, and connections are kept."""
    first = await serve(target=APP)
    stage.gate.close(ASKED)
    errand = stage.errand(first.url, *QUESTIONS)
    program = stage.here(errand)
    await stage.gate.reached(ASKED)
    await _replaced(serve, first)
    stage.has_lost_server = True
    stage.gate.open(ASKED)
    async with asyncio.timeout(PATIENCE):
        await program
    stage.check(errand)


async def _replaced(serve: Serving, first: Process) -> None:
    first.signal(signal.SIGKILL)
    await first.ended()
    second = await serve("--http", f"127.0.0.1:{urlsplit(first.url).port}", target=APP)
    assert second.url == first.url


@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_nothing_is_left_once_a_result_is_delivered(deadly: Served) -> None:
    errand = deadly.call()
    await deadly.apart(errand).ended()
    await deadly.apart(errand.again()).ended()
    deadly.check(errand)


@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_program_that_lives_keeps_what_it_has_handed_in(deadly: Served) -> None:
    deadly.gate.close(WORKING)
    errand = deadly.call()
    program = deadly.apart(errand)
    await deadly.gate.reached(WORKING)
    await deadly.apart(errand.again()).ended()
    assert errand.notebook.lines("delivered") == []
    deadly.gate.open(WORKING)
    await program.ended()
    deadly.check(errand)


@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_one_of_two_programs_that_come_back_at_once_has_the_result(deadly: Served) -> None:
    deadly.gate.close(WORKING)
    errand = deadly.call(*QUESTIONS)
    program = deadly.apart(errand)
    await deadly.gate.reached(WORKING)
    await deadly.gate.reached(STARTED)
    program.end()
    programs = [deadly.apart(errand.again()) for _ in range(2)]
    await deadly.gate.reached(STARTED, 3)
    deadly.gate.open(WORKING)
    for program in programs:
        await program.ended()
    deadly.check(errand)


@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_kill_before_anything_was_handed_in_leaves_nothing(deadly: Served) -> None:
    trap = deadly.proxy.trap(HELLO[deadly.mode], Cut.UNANSWERED)
    errand = deadly.call()
    program = deadly.apart(errand)
    await trap.caught()
    program = await deadly.kill(Victim.CLIENT, program, trap)
    await program.ended()
    assert errand.notebook.lines("delivered") == []
    assert deadly.proxy.seen["tools/call"] == 0


@pytest.mark.parametrize("mode", [OLDER], indirect=True)
async def test_what_belonged_to_a_session_is_lost_with_it_and_that_is_said(calm: Served) -> None:
    calm.gate.close(WORKING)
    errand = calm.call()
    program = calm.apart(errand)
    await calm.gate.reached(WORKING)
    await calm.gate.reached(STARTED)  # the tool may be at work before the program has heard its ticket
    program.end()
    calm.gate.open(WORKING)
    async with asyncio.timeout(PATIENCE), Client(calm.proxy.url, mode=OLDER, ledger=errand.ledger) as client:
        (handle,) = await client.resume()
        with pytest.raises(TaskLost):
            await handle.result()
        assert await client.resume() == []
