"""The same where the server is a process of the client's: whoever dies, the next process goes on."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serving import ROOT, environment
from tests.client_faults.app import BEGAN, WORKING
from tests.client_faults.host import command
from tests.client_faults.program import ASKED
from tests.client_faults.stage import GENERATIONS, QUESTIONS, Runner, Stage, Victim

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def entry(tmp_path: Path) -> dict[str, Any]:
    """The server as it would stand in `mcpServers`."""
    arguments = ["-m", *command("unbound", tmp_path), "--stdio"]
    return {"command": sys.executable, "args": arguments, "env": environment(tmp_path), "cwd": str(ROOT)}


async def _kill(stage: Stage, victim: Victim, runner: Runner) -> Runner:
    """Kill the server, the program or both; return the program as it is now, which starts a server by itself."""
    stage.has_lost_server = True  # without its client it ends as well
    if victim is not Victim.CLIENT:
        os.kill(await stage.gate.reached(BEGAN), signal.SIGKILL)
    if victim is Victim.SERVER:
        return runner
    runner.end()
    return stage.apart(runner.errand.again())


@pytest.mark.parametrize(("moment", "victim"), [(BEGAN, Victim.SERVER), (WORKING, Victim.CLIENT)])
@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_kill_while_the_server_works(moment: str, victim: Victim, entry: dict[str, Any], stage: Stage) -> None:
    stage.gate.close(moment)
    errand = stage.errand(entry)
    program = stage.apart(errand)
    await stage.gate.reached(moment)
    program = await _kill(stage, victim, program)
    stage.gate.open(moment)
    await program.ended()
    stage.check(errand)


@pytest.mark.parametrize("victim", [Victim.SERVER, Victim.BOTH])
@pytest.mark.parametrize("mode", GENERATIONS, indirect=True)
async def test_a_kill_while_the_person_thinks(victim: Victim, entry: dict[str, Any], stage: Stage) -> None:
    stage.gate.close(ASKED)
    errand = stage.errand(entry, *QUESTIONS)
    program = stage.apart(errand)
    await stage.gate.reached(ASKED)
    program = await _kill(stage, victim, program)
    stage.gate.open(ASKED)
    await program.ended()
    nobody_answered = QUESTIONS[:1] if victim is Victim.BOTH else ()
    stage.check(errand, asked=(*nobody_answered, *QUESTIONS))
