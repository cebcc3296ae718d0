"""Three workers and two servers under everything that can go wrong, on each store that they can share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.places import KINDS
from tests.chaos.run import Chaos, a_seed, run

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS = 20.0


@pytest.mark.parametrize("kind", KINDS)
async def test_every_acknowledged_task_ends_once_whatever_is_killed_stopped_cut_or_restarted(
    kind: str, tmp_path: Path
) -> None:
    verdict = await run(Chaos(kind, a_seed(), SECONDS, tmp_path))
    print(verdict.summary, *verdict.events, sep="\n")
    assert not verdict.wrongs, verdict.summary
