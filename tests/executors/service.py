"""A job service over HTTP: its jobs are in a file, and end when a test says so."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

PID = "x-pid"
"""A header with the process id of whoever asks, for a service that is to kill or stop it."""
ENDED = ("succeeded", "failed", "cancelled")
_SCHEMA = """
create table if not exists jobs (id integer primary key, key text unique, body text, state text);
create table if not exists log (operation text, detail text);
create table if not exists faults (operation text, fault text);
"""


class Service:
    def __init__(self, file: str) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.execute("pragma synchronous = off")  # it may be killed, but the machine runs on
        self._db.executescript(_SCHEMA)
        self._changed, self._changes = asyncio.Condition(), 0

    def job(self, column: str, value: str) -> dict[str, Any] | None:
        row = self._db.execute(f"select id, state from jobs where {column} = ?", (value,)).fetchone()
        return {"id": f"job-{row[0]}", **json.loads(row[1])} if row else None

    async def change(self, number: str, **changes: Any) -> None:
        job = self.job("id", number)
        assert job
        job.pop("id")
        self._db.execute("update jobs set state = ? where id = ?", (json.dumps({**job, **changes}), number))
        await self._tell_all()

    async def _tell_all(self) -> None:
        async with self._changed:
            self._changes += 1
            self._changed.notify_all()

    # What the API does

    async def submit(self, request: Request) -> Response:
        key, body = request.headers["idempotency-key"], await request.body()
        self._db.execute(
            "insert into jobs (key, body, state) values (?, ?, ?) on conflict do nothing",
            (key, body, json.dumps({"state": "running"})),
        )
        await self._tell_all()
        return JSONResponse(self.job("key", key), 202)

    async def status(self, request: Request) -> Response:
        number = request.path_params["number"]
        wait = float(request.headers.get("prefer", "wait=0").removeprefix("wait="))

        def is_news() -> bool:
            return _tag(self.job("id", number)) != request.headers.get("if-none-match")

        try:
            async with asyncio.timeout(wait), self._changed:
                await self._changed.wait_for(is_news)
        except TimeoutError:
            pass
        job = self.job("id", number)
        if job is None:
            return _missing()
        return JSONResponse(job, headers={"etag": _tag(job)}) if is_news() else Response(status_code=304)

    async def cancel(self, request: Request) -> Response:
        number = request.path_params["number"]
        job = self.job("id", number)
        if job is None:
            return _missing()
        if job["state"] in ENDED:
            return JSONResponse({"error": {"message": "It has ended"}}, 409)
        await self.change(number, state="cancelled")
        return Response(status_code=204)

    async def attach(self, request: Request) -> Response:
        job = self.job("key", request.path_params["key"])
        return JSONResponse(job) if job else _missing()

    async def answer(self, request: Request) -> Response:
        number, question = request.path_params["number"], request.path_params["question"]
        job = self.job("id", number)
        if job is None or question not in job.get("questions", {}):
            return JSONResponse({"error": {"message": "Nobody asked"}}, 409)
        answers = {**job.get("answers", {}), question: await request.json()}
        left = {key: value for key, value in job["questions"].items() if key != question}
        await self.change(number, answers=answers, questions=left)
        return Response(status_code=204)

    # What tests do

    async def told(self, request: Request) -> Response:
        await self.change(request.path_params["number"], **await request.json())
        return Response(status_code=204)

    async def forgotten(self, request: Request) -> Response:
        self._db.execute("delete from jobs where id = ?", (request.path_params["number"],))
        await self._tell_all()
        return Response(status_code=204)

    async def reset(self, request: Request) -> Response:
        for table in ("jobs", "log", "faults"):
            self._db.execute(f"delete from {table}")
        return Response(status_code=204)

    async def fault(self, request: Request) -> Response:
        said = await request.json()
        self._db.executemany(
            "insert into faults values (?, ?)", [(said["operation"], json.dumps(fault)) for fault in said["faults"]]
        )
        return Response(status_code=204)

    async def shown(self, request: Request) -> Response:
        """Show everything, as soon as it is not as it was after so many changes."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._changes != int(request.query_params.get("after", -1)))
        jobs = self._db.execute("select id, key, body, state from jobs order by id").fetchall()
        log = self._db.execute("select operation, detail from log").fetchall()
        shown = [
            {"id": f"job-{number}", "key": key, "body": json.loads(body), **json.loads(state)}
            for number, key, body, state in jobs
        ]
        asked = [{"operation": name, **json.loads(said)} for name, said in log]
        return JSONResponse({"jobs": shown, "log": asked, "changes": self._changes})

    # What goes wrong

    def faulty(self, operation: str, handler: Callable[[Request], Awaitable[Response]]) -> Any:
        async def handle(request: Request) -> Response:
            headers = dict(request.headers)
            detail = json.dumps({"path": request.url.path, "headers": headers})
            self._db.execute("insert into log values (?, ?)", (operation, detail))
            await self._tell_all()
            fault = self._next_fault(operation)
            if fault is None:
                return await handler(request)
            await request.body()  # which would be lost with whoever sends it
            if fault.get("is_done"):  # it is carried out, and only the answer is lost
                await handler(request)
            if "signal" in fault:
                os.kill(int(headers[PID]), fault["signal"])
            await asyncio.sleep(fault.get("seconds", 0))
            return Response(fault.get("body", "not now"), fault.get("status", 503), fault.get("headers"))

        return handle

    def _next_fault(self, operation: str) -> dict[str, Any] | None:
        row = self._db.execute(
            "select rowid, fault from faults where operation = ? order by rowid limit 1", (operation,)
        ).fetchone()
        if row is None:
            return None
        self._db.execute("delete from faults where rowid = ?", (row[0],))
        return json.loads(row[1])


def _tag(job: dict[str, Any] | None) -> str:
    return f'"{zlib.crc32(json.dumps(job).encode())}"'


def _missing() -> Response:
    return JSONResponse({"error": {"message": "There is no such job"}}, 404)


def serve(file: str, port: int) -> None:
    """Be the service, at a port, or at a free one if it is 0; say which."""
    asyncio.run(_serve(file, port))


async def _serve(file: str, port: int) -> None:
    service = Service(file)
    routes = [
        Route("/v1/jobs", service.faulty("submit", service.submit), methods=["POST"]),
        Route("/v1/jobs/by-key/{key}", service.faulty("attach", service.attach)),
        Route("/v1/jobs/job-{number}", service.faulty("status", service.status)),
        Route("/v1/jobs/job-{number}", service.faulty("cancel", service.cancel), methods=["DELETE"]),
        Route("/v1/jobs/job-{number}/answers/{question}", service.faulty("answer", service.answer), methods=["PUT"]),
        Route("/control/jobs/job-{number}", service.told, methods=["POST"]),
        Route("/control/jobs/job-{number}", service.forgotten, methods=["DELETE"]),
        Route("/control/faults", service.fault, methods=["POST"]),
        Route("/control/reset", service.reset, methods=["POST"]),
        Route("/control/shown", service.shown),
    ]
    listening = socket.create_server(("127.0.0.1", port))
    print("port", listening.getsockname()[1], flush=True)
    config = uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off")
    await uvicorn.Server(config).serve(sockets=[listening])
