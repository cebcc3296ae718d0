"""Over real processes: servers that are children of the proxy, and a proxy that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.cli.serving import ROOT, environment
from tests.client_faults.gate import Gate, gatekeeping
from tests.forked import call_coatcheck
from tests.matrix.peers import PATIENCE
from tests.proxy.bridge.processes import Server, proxy_command, upstream
from tests.proxy.bridge.programs.tools import BEGAN
from tests.proxy.bridge.programs.upstreams import Kind
from tests.proxy.meta.talks import Answer, Json, Meta, proxying

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


class Remote(Meta):
    """A client of a proxy that is another process."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.told: list[Json] = []

    async def use(self, tool: str, /, **arguments: Any) -> Answer:
        result = await self._client.call_tool(tool, arguments)
        answer = Answer(result.model_dump(by_alias=True, mode="json", exclude_none=True))
        self.told += answer.events
        return answer


class Scene:
    """A proxy with the meta tools, in front of a server with tasks; both are processes."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self._log = folder / "log.txt"
        self.upstream = upstream(folder, kind, "one")
        command = proxy_command(folder, {"one": {"url": self.upstream.url}})
        self.proxy = Server(folder, "proxy", _serve_proxy, [*command, "--tools"], folder)

    def arguments(self, gate: Gate) -> Json:
        return {"log": str(self._log), "gate": gate.port}

    def began(self) -> int:
        """Return how often work has begun."""
        return sum(line.startswith(BEGAN) for line in self._log.read_text().splitlines())

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Remote]:
        async with Client(self.proxy.url, mode="2026-07-28") as client:
            yield Remote(client)


def _serve_proxy(command: list[str], folder: Path, port: int) -> None:
    call_coatcheck([*command, "--http", f"127.0.0.1:{port}"], ROOT, environment(folder))


@pytest.fixture(params=["older", "newer"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Scene]:
    scene = Scene(tmp_path, request.param)
    scene.upstream.start()
    scene.proxy.start()
    yield scene
    scene.proxy.kill()
    scene.upstream.kill()


async def test_p_055_what_is_under_way_survives_a_proxy_that_is_killed(scene: Scene) -> None:
    async with gatekeeping() as gate:
        gate.close(BEGAN)
        async with scene.client() as meta:
            working = await meta.task("work", **scene.arguments(gate))
            await gate.reached(BEGAN)
            ended = await meta.task("echo", word="kept")
            await meta.until("task_completed", taskId=ended)
            before = meta.told
        await asyncio.to_thread(scene.proxy.kill)
        await asyncio.to_thread(scene.proxy.start)
        async with scene.client() as meta:
            listed = (await meta.use("list_tasks", include_completed=True)).said["tasks"]
            assert {task["task_id"]: task["status"] for task in listed} == {working: "working", ended: "completed"}
            assert (await meta.use("get_task_result", task_id=ended)).own[0] == "kept"
            gate.open(BEGAN)
            assert (await meta.use("get_task_result", task_id=working)).own == ["The work is done"]
            assert (await meta.until("task_completed", taskId=working))["server"] == "one"
            everything = (await meta.use("await_activity", last_event_id="none")).events
            assert {event["id"] for event in before} <= {event["id"] for event in everything}
        assert scene.began() == 1


async def test_p_055_a_pending_question_survives_a_proxy_that_is_killed(scene: Scene) -> None:
    async with gatekeeping() as gate:
        async with scene.client() as meta:
            task = await meta.task("interview", questions=["who?", "really?"], **scene.arguments(gate))
            question = await meta.question(message="who?")
            await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "Ada"})
            await meta.question(message="really?")
        await asyncio.to_thread(scene.proxy.kill)
        await asyncio.to_thread(scene.proxy.start)
        async with scene.client() as meta:
            async with asyncio.timeout(PATIENCE):
                while not (asked := (await meta.use("get_elicitations")).said["elicitations"]):
                    await meta.use("await_activity", timeout_ms=1_000)
            assert [each["message"] for each in asked] == ["really?"]
            question = asked[0]["requestId"]
            await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "yes"})
            assert (await meta.use("get_task_result", task_id=task)).own == ["Ada and yes"]


async def test_p_083_a_process_is_given_what_its_entry_says(tmp_path: Path) -> None:
    async with proxying([]) as place:
        meta = Meta(await place.memory())
        added = await meta.use("add_server", name="child", **_child(tmp_path))
        assert "tools" in added.said["capabilities"]
        said = (await meta.execute("given", server="child", variable="GIVEN")).own
        assert said == [f"a-secret in {tmp_path} with ['--loud']"]
        described = (await meta.use("list_servers")).said["servers"][0]
        assert (described["type"], described["state"]) == ("stdio", "connected")
        assert "a-secret" not in str(described)
        assert "a-secret" not in str(meta.told)


async def test_p_083_p_066_a_process_is_heard_missed_and_started_again(tmp_path: Path) -> None:
    async with proxying([]) as place:
        meta = Meta(await place.memory())
        await meta.use("add_server", name="child", **_child(tmp_path))
        await meta.execute("shout", server="child", words=["a line", "another"])
        async with asyncio.timeout(PATIENCE):
            while len(logs := (await meta.use("get_logs", server="child")).said["logs"]) < 2:
                await meta.talk.ask("ping")
        assert [(each["data"], each["source"]) for each in logs[-2:]] == [("a line", "stderr"), ("another", "stderr")]
        pid = int((await meta.execute("who", server="child")).own[0])
        os.kill(pid, signal.SIGKILL)
        await meta.until("server_disconnected", server="child")
        refused = (await meta.execute("who", server="child")).error
        assert refused["code"] == "TOOL_ERR_SERVER_RECONNECTING"
        await meta.until("server_reconnected", server="child")
        assert int((await meta.execute("who", server="child")).own[0]) != pid


def _child(folder: Path) -> Json:
    return {
        "command": sys.executable,
        "args": [str(Path(__file__).parent / "child.py"), "--loud"],
        "env": {"GIVEN": "a-secret", "PYTHONPATH": str(ROOT)},
        "cwd": str(folder),
    }
