"""A tool whose work another service does: the task is here, the job is there, and each outlives a restart of the other.

Run it as it is: it has the service in it, a render farm with a job API over HTTP.
"""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coatcheck import Client
from coatcheck.executors import HttpJobs, Jobs
from coatcheck.server import TaskContext, TaskPolicy, TaskServer

# The service, as somebody else runs it

farm: dict[str, dict[str, Any]] = {}


async def submit(request: Request) -> Response:
    key, wish = request.headers["idempotency-key"], (await request.json())["arguments"]
    farm.setdefault(key, {"id": key, "state": "running", "progress": {"done": 0, "total": wish["frames"]}})
    return JSONResponse(farm[key], 202)


async def status(request: Request) -> Response:
    job = farm[request.path_params["id"]]
    job["progress"]["done"] += 1  # a frame for every look at it
    job["message"] = f"Frame {job['progress']['done']}"
    if job["progress"]["done"] == job["progress"]["total"]:
        job |= {"state": "succeeded", "result": {"film": "beach.mp4"}}
    return JSONResponse(job)


async def cancel(request: Request) -> Response:
    farm[request.path_params["id"]]["state"] = "cancelled"
    return Response(status_code=204)


api = Starlette(
    routes=[
        Route("/v1/jobs", submit, methods=["POST"]),
        Route("/v1/jobs/{id}", status),
        Route("/v1/jobs/{id}", cancel, methods=["DELETE"]),
    ]
)


# The server


def server_of(url: str) -> TaskServer:
    server = TaskServer("films", store="sqlite:///films.db", log_level="WARNING")
    jobs = server.tasks.look_after(Jobs(HttpJobs(url)))

    @server.tool(task=TaskPolicy("required", resumable=True))
    async def render(scene: str, frames: int, task: TaskContext) -> dict[str, str]:
        """Render a film."""
        return await jobs.run(task, "render", {"scene": scene, "frames": frames})

    return server


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    service = uvicorn.Server(uvicorn.Config(api, log_level="error"))
    serving = asyncio.create_task(service.serve(sockets=[listener]))
    server = server_of(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    async with Client(server) as client:
        film = await client.call(
            "render", {"scene": "beach", "frames": 3}, on_change=lambda task: print(task.status, task.message or "")
        )
        print(film.data)
    service.should_exit = True
    await serving


asyncio.run(main())
