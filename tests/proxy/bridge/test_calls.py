"""Every client in front of every server: what is quick is answered with its result, and what is slow is not lost."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck import Client
from coatcheck.dialects.words import RELATED_TASK
from coatcheck.errors import CannotConnect
from tests.proxy.bridge.clients import KINDS, Caller, Kind, Said, connected
from tests.proxy.bridge.conftest import Scene
from tests.proxy.bridge.programs.tools import BEGAN, ECHO_META, ENDED, REFUSED

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

UPSTREAMS = ("plain", "older", "newer")
cells = pytest.mark.parametrize(("kind", "upstream"), [(kind, upstream) for kind in KINDS for upstream in UPSTREAMS])


@pytest.mark.parametrize(
    ("name", "mode", "has_tasks"),
    [
        ("plain", "2025-11-25", False),
        ("plain", "2026-07-28", False),
        ("older", "2025-11-25", True),
        ("older", "2026-07-28", None),
        ("newer", "2025-11-25", None),
        ("newer", "2026-07-28", True),
    ],
)
async def test_the_servers_behind_speak_what_they_are_here_for(
    name: str, mode: Any, has_tasks: bool | None, steady: dict[str, Any]
) -> None:
    """None: not even that generation."""
    client = Client(steady[name], mode=mode, ledger=False)
    if has_tasks is None:
        with pytest.raises(CannotConnect):
            await client.__aenter__()
        return
    async with client:
        assert client.has_tasks is has_tasks


@cells
async def test_a_quick_result_arrives_as_it_is(kind: Kind, upstream: str, patient: str) -> None:
    async with connected(kind, patient) as caller:
        said = await caller.call(f"{upstream}__echo", {"word": "Hello"})
        assert said.result
        sent: dict[str, Any] = said.result.model_dump(by_alias=True, mode="json", exclude_none=True)
        meta = {name: value for name, value in sent.pop("_meta").items() if not name.startswith("io.model")}
        assert meta == ECHO_META
        assert said.result.structured_content == {"said": ["Hello", {"empty": None}]}
        text, link = sent["content"]
        assert text == {"type": "text", "text": "Hello"}
        assert link == {"type": "resource_link", "uri": "file:///tmp/echo.txt", "name": "echo"}
        assert not said.is_error
        # In 2025-11-25 it is the client who makes a task of a call, however quick.
        assert (caller.last_task is not None) is (kind == "2025")


async def _ended(caller: Caller, tool: str, scene: Scene, *, is_slow: bool) -> tuple[Said, str | None]:
    """Return what comes of a call, and the task it was: at once, or only once it has been a task for a while."""
    arguments = {"gate": scene.gate.port}
    if not is_slow:
        return await caller.call(tool, arguments), caller.last_task
    scene.gate.close(BEGAN)
    task_id = await caller.start(tool, arguments)
    scene.gate.open(BEGAN)
    return await caller.collect(task_id), task_id


@cells
@pytest.mark.parametrize("is_slow", [False, True], ids=["quick", "slow"])
async def test_an_error_that_a_tool_reports_arrives(
    kind: Kind, upstream: str, is_slow: bool, hasty: str, patient: str, scene: Scene
) -> None:
    async with connected(kind, hasty if is_slow else patient) as caller:
        said, _ = await _ended(caller, f"{upstream}__fail", scene, is_slow=is_slow)
        assert said.result
        assert said.result.is_error
        assert said.text == "It went wrong"


@cells
@pytest.mark.parametrize("is_slow", [False, True], ids=["quick", "slow"])
async def test_an_error_of_the_protocol_arrives(
    kind: Kind, upstream: str, is_slow: bool, hasty: str, patient: str, scene: Scene
) -> None:
    async with connected(kind, hasty if is_slow else patient) as caller:
        said, task_id = await _ended(caller, f"{upstream}__refuse", scene, is_slow=is_slow)
        assert said.is_error
        if is_slow and kind.startswith("none"):
            assert said.text.endswith("It is refused")  # a ticket is collected with a tool, which tells of it
        else:
            data = {name: value for name, value in said.data.items() if name != "_meta"}
            assert (said.code, said.message, data) == (REFUSED, "It is refused", {"why": ["it was made so"]})
            # Of its own task, and not of that of the server behind.
            assert said.data.get("_meta") == ({RELATED_TASK: {"taskId": task_id}} if kind == "2025" else None)


@cells
async def test_what_is_slow_becomes_a_task_or_a_ticket(kind: Kind, upstream: str, hasty: str, scene: Scene) -> None:
    async with connected(kind, hasty) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start(f"{upstream}__work", scene.arguments)
        await scene.gate.reached(BEGAN)
        assert scene.traces(ENDED) == []
        scene.gate.open(BEGAN)
        said = await caller.collect(task_id)
        assert said.text == "The work is done"
        assert said.result
        assert said.result.structured_content == {"result": "The work is done"}
    assert len(scene.traces(BEGAN)) == len(scene.traces(ENDED)) == 1
