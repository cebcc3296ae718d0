"""What a server logs at level debug: nothing callers said or were told, and nothing that opens a door."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

import pytest

from coatcheck.cli.logs import LogFormat, configure_logs
from tests.requirements.marks import requirement
from tests.security.callers import Caller, Modern, Older
from tests.security.served import Served, serving

pytestmark = pytest.mark.slow

SERVERS = pytest.mark.parametrize("module", ["private", "anyones"])


def _use_everything(served: Served, kind: type[Caller], mark: str) -> list[str]:
    """Do all there is to do; return what must not be in a log."""
    user = f"user-{mark}"
    token = served.token(user=user) if mark.startswith("private") else None
    with closing(kind(served.url, token)) as caller:
        doors = [token.rpartition(".")[2], user] if token else []
        doors += [caller.session] if isinstance(caller, Older) else []
        ids = [caller.hand_in(tool, secret=f"{mark}-{tool}") for tool in ("keep", "endless", "ask", "fail")]
        caller.until(ids[2], "input_required")
        caller.use("answer_task", task_id=ids[2], content={"name": f"{mark}-answer"})
        for task_id in ids:
            caller.use("get_task", task_id=task_id)
            caller.use("wait_task", task_id=task_id, seconds=0)
            caller.ask("tasks/get", taskId=task_id)
        caller.use("keep", secret=f"{mark}-plain")
        caller.use("list_tasks")
        caller.ask("tools/call", name="keep", arguments={"secret": [f"{mark}-wrong"]})
        caller.ask("tasks/get", taskId=f"{mark}-guess")
        caller.ask("tasks/cancel", taskId=ids[1])
        caller.ask("no/such/method", secret=f"{mark}-method")
        caller.post(f'{{"secret": "{mark}-torn'.encode())
        # Where nobody is known, an id is what opens the door.
        return [mark, *doors, *([] if token else ids)]


@requirement("G-017")
@SERVERS
def test_secrets_tokens_and_sessions_are_not_in_the_log(module: str, tmp_path: Path) -> None:
    with serving(module, tmp_path) as served:
        hidden = [
            what for kind in (Modern, Older) for what in _use_everything(served, kind, f"{module}-{kind.generation}-x")
        ]
        bad = served.token(user="a bad user", aud="else")
        with closing(Modern(served.url, bad)) as stranger:
            stranger.ask("tools/list")
        said = served.logs()
    assert "DEBUG" in said
    hidden += [bad.rpartition(".")[2], "a bad user"]
    assert [(what, line) for line in said.splitlines() for what in hidden if what in line] == []
    if module == "private":
        assert "coatcheck: A token was refused: it is for somebody else" in said


@pytest.fixture
def logs() -> Generator[Callable[[str], None]]:
    """Set the logs up as a command does, and put them back."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    names = (
        "sse_starlette",
        "httpcore2",
        "httpx2",
        "uvicorn.access",
        "uvicorn.error",
        "mcp.server.streamable_http_manager",
    )
    levels = {name: logging.getLogger(name).level for name in names}
    yield lambda level: configure_logs(LogFormat.TEXT, level)
    root.handlers[:] = before
    root.setLevel(level)
    for name, was in levels.items():
        logging.getLogger(name).setLevel(was)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_libraries_that_log_what_passes_are_kept_from_it(logs: Callable[[str], None], level: str) -> None:
    logs(level)
    for name in ("sse_starlette.sse", "httpcore2.http11", "httpx2"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)
        assert logging.getLogger(name).isEnabledFor(logging.ERROR)
