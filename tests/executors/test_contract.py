"""Every executor passes the same contract."""

import pytest

from coatcheck.executors import HttpJobs
from coatcheck.testing.executor_contract import CHECKS, Check
from tests.executors.stage import HttpBench, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_http_jobs(check: Check, stage: Stage, executor: HttpJobs) -> None:
    await check(HttpBench(stage, executor))
