"""A tool of an MCP server whose work is a job."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from coatcheck import Client, Engine, ToolFailed, Worker
from coatcheck.executors import Jobs
from coatcheck.server import TaskContext, TaskPolicy, TaskServer
from tests.executors.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SCHEMA = {"type": "object", "properties": {"copies": {"type": "integer"}}, "required": ["copies"]}
ANSWER = {"action": "accept", "content": {"copies": 3}}


def server_of(jobs: Jobs) -> TaskServer:
    server = TaskServer("farm", store="memory://")

    @server.tool(task=TaskPolicy("required", resumable=True))
    async def render(scene: str, task: TaskContext) -> dict[str, Any]:
        return await jobs.run(task, "render", {"scene": scene})

    @server.tool()
    async def render_now(scene: str, task: TaskContext) -> dict[str, Any]:
        return await jobs.run(task, "render", {"scene": scene})

    return server


async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"copies": 3})


@pytest.mark.parametrize("tool", ["render", "render_now"])
async def test_a_call_has_the_result_of_its_job(tool: str, jobs: Jobs, stage: Stage) -> None:
    async with Client(server_of(jobs)) as client:
        call = asyncio.ensure_future(client.call(tool, {"scene": "beach"}))
        job = await stage.job()
        assert job["body"]["arguments"] == {"scene": "beach"}
        await stage.tell(job["id"], state="succeeded", result={"frames": 3})
        assert (await call).data == {"frames": 3}


async def test_a_call_fails_with_the_words_and_the_code_of_its_job(jobs: Jobs, stage: Stage) -> None:
    async with Client(server_of(jobs)) as client:
        call = asyncio.ensure_future(client.call("render", {"scene": "beach"}))
        error = {"message": "No paper", "code": 7, "data": {"tray": 2}}
        await stage.tell((await stage.job())["id"], state="failed", error=error)
        with pytest.raises(ToolFailed, match="No paper") as raised:
            await call
    assert (raised.value.code, raised.value.data) == (7, {"tray": 2})


async def test_a_client_that_cancels_cancels_the_job(jobs: Jobs, stage: Stage) -> None:
    async with Client(server_of(jobs)) as client:
        handle = await client.start("render", {"scene": "beach"})
        await stage.job()
        await handle.cancel()
        await stage.until(lambda jobs: jobs[0]["state"] == "cancelled")


async def test_a_server_looks_after_jobs_of_workers_that_were_there_before(
    engine: Engine, jobs: Jobs, stage: Stage, tmp_path: Path
) -> None:
    async with Worker(engine, [jobs.tool("render")], grace=0.01) as worker:
        task = await worker.submit("render")
        await stage.until_asked("status")
    server = TaskServer("another", store=f"sqlite:///{tmp_path}/tasks.db")
    assert server.tasks.look_after(jobs) is jobs
    async with Client(server):
        await engine.cancel(task.id)
        await stage.until(lambda found: [job["state"] for job in found] == ["cancelled"])


async def test_a_client_is_asked_what_a_job_asks(jobs: Jobs, stage: Stage) -> None:
    async with Client(server_of(jobs), elicitation_callback=answer) as client:
        call = asyncio.ensure_future(client.call("render", {"scene": "beach"}))
        job = await stage.job()
        await stage.tell(job["id"], questions={"q": {"message": "How many?", "schema": SCHEMA}})
        (job,) = await stage.until(lambda jobs: "answers" in jobs[0])
        assert job["answers"] == {"q": ANSWER}
        await stage.tell(job["id"], state="succeeded", result={})
        await call


async def test_a_host_looks_after_the_jobs_of_its_guests_and_of_theirs(
    engine: Engine, jobs: Jobs, stage: Stage, tmp_path: Path
) -> None:
    async with Worker(engine, [jobs.tool("render")], grace=0.01) as worker:
        task = await worker.submit("render")
        await stage.until_asked("status")
    guest, between = TaskServer("guest"), TaskServer("between")
    host = TaskServer("host", store=f"sqlite:///{tmp_path}/tasks.db")
    guest.tasks.look_after(jobs)
    between.mount(guest, "guest")
    host.mount(between, "between")
    async with Client(host):
        await engine.cancel(task.id)
        await stage.until(lambda found: [job["state"] for job in found] == ["cancelled"])
