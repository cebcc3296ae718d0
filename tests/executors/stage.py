"""The job service as tests have it: a process to start, to kill and to steer, and a bench for the contract."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2

from coatcheck.executors import HttpJobs
from tests.executors.service import PID, serve
from tests.forked import Forked, fork

PATIENCE = 60
Shown = list[dict[str, Any]]


class Stage:
    """A job service in a process of its own, at one address however often it is started."""

    def __init__(self, folder: Path) -> None:
        self._file, self._port = folder / "jobs.db", 0
        self._process: Forked | None = None
        self._client = httpx2.AsyncClient(timeout=PATIENCE)

    async def start(self) -> None:
        self._process, said = await fork(serve, str(self._file), self._port, stream=1)
        async with asyncio.timeout(PATIENCE):
            word, _, port = (await said.readline()).decode().partition(" ")
        assert word == "port"
        self._port = int(port)

    async def begin_anew(self) -> None:
        """Forget everything, in a process that runs."""
        if self._process is None:
            await self.start()
        await self._control("POST", "reset")

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process:
            await process.clean_up(PATIENCE)

    async def close(self) -> None:
        await self.kill()
        await self._client.aclose()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def executor(self, **options: Any) -> HttpJobs:
        return HttpJobs(self.url, name="farm", headers={PID: str(os.getpid())}, **options)

    async def break_next(self, operation: str, *faults: Any) -> None:
        """Answer the next requests of a kind so; see `Service.faulty`."""
        await self._control("POST", "faults", {"operation": operation, "faults": faults})

    async def tell(self, job_id: str, **changes: Any) -> None:
        await self._control("POST", f"jobs/{job_id}", changes)

    async def forget(self, job_id: str) -> None:
        await self._control("DELETE", f"jobs/{job_id}")

    async def jobs(self) -> Shown:
        return (await self._show())["jobs"]

    async def asked(self, operation: str) -> Shown:
        """Return what the service was asked, in order: the path and the headers."""
        return [entry for entry in (await self._show())["log"] if entry["operation"] == operation]

    async def job(self, number: int = 0) -> dict[str, Any]:
        """Wait for a job; return it."""

        def is_there(jobs: Shown) -> bool:
            return len(jobs) > number

        return (await self.until(is_there))[number]

    async def until(self, is_so: Callable[[Shown], bool]) -> Shown:
        """Wait for the jobs to be as they should be; return them."""
        return (await self._until(lambda shown: is_so(shown["jobs"])))["jobs"]

    async def until_asked(self, operation: str, times: int = 1) -> None:
        await self._until(lambda shown: [entry["operation"] for entry in shown["log"]].count(operation) >= times)

    async def _until(self, is_so: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not is_so(shown := await self._show()):
                await self._show(after=shown["changes"])
        return shown

    async def _show(self, **query: int) -> Any:
        return (await self._control("GET", f"shown?{urlencode(query)}")).json()

    async def _control(self, method: str, path: str, said: Any = None) -> httpx2.Response:
        url = self.url.replace("/v1", f"/control/{path}")
        response = await self._client.request(method, url, json=said)
        return response.raise_for_status()


class HttpBench:
    """What the contract needs, by way of the service."""

    def __init__(self, stage: Stage, executor: HttpJobs) -> None:
        self._stage, self.executor = stage, executor

    async def arguments(self, job_id: str) -> Mapping[str, Any]:
        (job,) = [job for job in await self._stage.jobs() if job["id"] == job_id]
        return job["body"]["arguments"]

    async def tell(self, job_id: str, done: float, total: float, message: str) -> None:
        await self._stage.tell(job_id, progress={"done": done, "total": total}, message=message)

    async def succeed(self, job_id: str, result: Any) -> None:
        await self._stage.tell(job_id, state="succeeded", result=result)

    async def fail(self, job_id: str, message: str) -> None:
        await self._stage.tell(job_id, state="failed", error={"message": message})
