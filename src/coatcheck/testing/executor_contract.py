"""What every executor must do, as plain async checks, each with a bench of its own.

pytest runs them against ours; run `CHECKS` against yours.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from coatcheck.executor import Executor, JobNotFound, JobRequest, JobState, JobStatus


class Bench(Protocol):
    """An executor, and a hand on the engine behind it: its jobs run until they are told to end."""

    @property
    def executor(self) -> Executor: ...

    async def arguments(self, job_id: str) -> Mapping[str, Any]:
        """Return what a job was given."""
        ...

    async def tell(self, job_id: str, done: float, total: float, message: str) -> None:
        """Let a job say how far it is."""
        ...

    async def succeed(self, job_id: str, result: Any) -> None:
        """Let a job end well."""
        ...

    async def fail(self, job_id: str, message: str) -> None:
        """Let a job end badly."""
        ...


Check = Callable[[Bench], Awaitable[None]]
CHECKS: list[Check] = []

_PATIENCE = 60.0
"""Seconds to wait for what should come soon, on however busy a machine."""
_GIVEN: Mapping[str, Any] = {"text": "caf\u00e9 \u2713", "list": [1, 2.5, None, True], "nested": {"a": {"b": []}}}


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def _request(arguments: Mapping[str, Any] | None = None) -> JobRequest:
    return JobRequest(key=secrets.token_hex(16), name="check", arguments=arguments or {})


async def _until(bench: Bench, job_id: str, is_so: Callable[[JobStatus], bool]) -> JobStatus:
    async with asyncio.timeout(_PATIENCE):
        status = await bench.executor.status(job_id)
        while not is_so(status):
            await asyncio.sleep(0.01)  # an engine that cannot wait answers at once
            status = await bench.executor.status(job_id, wait=1.0, since=status)
    return status


async def _end(bench: Bench, job_id: str) -> JobStatus:
    return await _until(bench, job_id, lambda status: status.state.is_over)


# Handing in


@check
async def a_submitted_job_runs_with_its_arguments(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request(_GIVEN))
    assert (await bench.executor.status(job_id)).state is JobState.RUNNING
    assert await bench.arguments(job_id) == _GIVEN


@check
async def a_key_stands_for_one_job(bench: Bench) -> None:
    request = _request(_GIVEN)
    first = await bench.executor.submit(request)
    assert await bench.executor.submit(request) == first
    assert await bench.executor.submit(_request(_GIVEN)) != first, "another key is another job"


@check
async def of_many_racing_submits_under_one_key_one_makes_the_job(bench: Bench) -> None:
    request = _request()
    ids = await asyncio.gather(*(bench.executor.submit(request) for _ in range(8)))
    assert len(set(ids)) == 1


@check
async def a_key_stands_for_its_job_when_that_has_ended(bench: Bench) -> None:
    request = _request()
    job_id = await bench.executor.submit(request)
    await bench.succeed(job_id, 1)
    await _end(bench, job_id)
    assert await bench.executor.submit(request) == job_id, "or a task that was interrupted would do its work twice"
    assert (await bench.executor.status(job_id)).result == 1


@check
async def attach_returns_the_job_of_a_key_or_nothing(bench: Bench) -> None:
    request = _request()
    assert await bench.executor.attach(request.key) is None
    job_id = await bench.executor.submit(request)
    assert await bench.executor.attach(request.key) in (job_id, None), "None where an engine cannot tell"


# How it stands


@check
async def what_a_job_says_is_told(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    await bench.tell(job_id, 1, 4, "A quarter")
    status = await _until(bench, job_id, lambda status: status.progress is not None)
    assert status.progress is not None
    assert (status.progress.done, status.progress.total, status.message) == (1, 4, "A quarter")
    assert status.state is JobState.RUNNING


@check
async def a_result_is_returned_as_it_is_and_as_often_as_it_is_asked_for(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    await bench.succeed(job_id, _GIVEN)
    status = await _end(bench, job_id)
    assert (status.state, status.result, status.error) == (JobState.SUCCEEDED, _GIVEN, None)
    assert (await bench.executor.status(job_id)).result == _GIVEN


@check
async def a_result_may_be_large(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    large = ["x" * 1000] * 1000
    await bench.succeed(job_id, large)
    assert (await _end(bench, job_id)).result == large


@check
async def a_failure_says_why(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    await bench.fail(job_id, "There is no paper left")
    status = await _end(bench, job_id)
    assert status.state is JobState.FAILED
    assert status.error is not None
    assert "There is no paper left" in status.error.message


@check
async def a_look_that_may_wait_returns_without_news_too(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    status = await bench.executor.status(job_id)
    async with asyncio.timeout(_PATIENCE):
        assert (await bench.executor.status(job_id, wait=1.0, since=status)).state is JobState.RUNNING


@check
async def a_look_that_may_wait_misses_nothing(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    before = await bench.executor.status(job_id)
    await bench.tell(job_id, 1, 4, "A quarter")
    await _until(bench, job_id, lambda status: status.message == "A quarter")
    async with asyncio.timeout(_PATIENCE):
        status = await bench.executor.status(job_id, wait=10 * _PATIENCE, since=before)
    assert status.message == "A quarter", "it had changed already"


@check
async def a_job_that_nobody_knows_is_not_found(bench: Bench) -> None:
    try:
        status = await bench.executor.status("no-such-job")
    except JobNotFound:
        return
    raise AssertionError(f"there is a job that was never submitted: {status}")


# Stopping


@check
async def a_cancelled_job_ends(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    await bench.executor.cancel(job_id)
    assert (await _end(bench, job_id)).state is JobState.CANCELLED
    await bench.executor.cancel(job_id)
    assert (await bench.executor.status(job_id)).state is JobState.CANCELLED


@check
async def cancelling_a_job_leaves_the_others_alone(bench: Bench) -> None:
    one, other = await bench.executor.submit(_request()), await bench.executor.submit(_request())
    await bench.executor.cancel(one)
    await _end(bench, one)
    assert (await bench.executor.status(other)).state is JobState.RUNNING


@check
async def what_has_ended_stays_as_it_ended_if_it_is_cancelled(bench: Bench) -> None:
    job_id = await bench.executor.submit(_request())
    await bench.succeed(job_id, "done")
    await _end(bench, job_id)
    await bench.executor.cancel(job_id)
    status = await bench.executor.status(job_id)
    assert (status.state, status.result) == (JobState.SUCCEEDED, "done")


@check
async def cancelling_a_job_that_nobody_knows_is_no_error(bench: Bench) -> None:
    await bench.executor.cancel("no-such-job")
