"""Hosts that are frozen between requests are told from those that are not."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from coatcheck.errors import InvalidArgument
from coatcheck.hosting import check_host, complaint, platform_that_freezes
from coatcheck.server import TaskServer
from tests.processes import PATIENCE

PLATFORMS: Mapping[str, Mapping[str, str]] = {
    "AWS Lambda": {"AWS_LAMBDA_FUNCTION_NAME": "tools", "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13"},
    "Google Cloud Functions": {"FUNCTION_TARGET": "serve", "K_SERVICE": "tools"},
    "Azure Functions": {"FUNCTIONS_WORKER_RUNTIME": "python"},
    "Vercel": {"VERCEL": "1"},
    "Netlify": {"NETLIFY": "true"},
    "Alibaba Cloud Function Compute": {"FC_FUNCTION_NAME": "tools"},
    "Tencent Cloud SCF": {"SCF_FUNCTIONNAME": "tools"},
    "OpenWhisk": {"__OW_ACTION_NAME": "/guest/tools"},
}
LAMBDA = PLATFORMS["AWS Lambda"]


@pytest.mark.parametrize(("name", "environment"), PLATFORMS.items(), ids=PLATFORMS)
def test_a_platform_is_known_by_what_it_sets(name: str, environment: Mapping[str, str]) -> None:
    assert platform_that_freezes({"PATH": "/bin", **environment}, "linux") == name


@pytest.mark.parametrize("system", ["emscripten", "wasi"])
def test_web_assembly_is_known_by_its_system(system: str) -> None:
    assert "WebAssembly" in (platform_that_freezes({}, system) or "")


@pytest.mark.parametrize(
    "environment",
    [{}, {"VERCEL": ""}, {"K_SERVICE": "tools"}, {"CLOUD_RUN_JOB": "tools"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}],
    ids=["bare", "empty variable", "Cloud Run", "Cloud Run job", "Kubernetes"],
)
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_all_others_may_run_tasks(environment: Mapping[str, str], system: str) -> None:
    assert platform_that_freezes(environment, system) is None
    check_host(64, "memory://", strict=True, environment=environment, system=system)


@pytest.mark.parametrize("store", ["memory://", "sqlite:////var/tasks.db", "redis://cache", "postgresql://db/tasks"])
def test_a_strict_server_refuses_to_run_tasks_where_it_would_be_frozen(store: str) -> None:
    with pytest.raises(InvalidArgument, match=r"This is AWS Lambda.*never run.*concurrency=0.*redis://|the same store"):
        check_host(1, store, strict=True, environment=LAMBDA, system="linux")


@pytest.mark.parametrize("store", ["redis://cache", "rediss://cache", "postgresql://db/tasks", "postgres://db/tasks"])
def test_a_server_that_leaves_tasks_to_others_may_be_frozen(store: str) -> None:
    assert complaint(0, store, LAMBDA, "linux") is None
    check_host(0, store, strict=True, environment=LAMBDA, system="linux")


@pytest.mark.parametrize("store", ["memory://", "sqlite:///tasks.db"])
def test_nobody_else_reaches_what_is_kept_inside_of_a_function(store: str) -> None:
    with pytest.raises(InvalidArgument, match="a store that both can reach"):
        check_host(0, store, strict=True, environment=LAMBDA, system="linux")


def test_a_server_that_is_not_strict_is_warned_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "coatcheck"):
        for _ in range(3):
            check_host(64, "sqlite:///only-for-this-test.db", strict=False, environment={"VERCEL": "1"}, system="linux")
    (record,) = caplog.records
    assert record.getMessage().startswith("This is Vercel, where a process is frozen")


def test_a_strict_server_does_not_start_there() -> None:
    program = "from coatcheck.server import TaskServer; TaskServer('tools', store='memory://', strict=True).run()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **LAMBDA},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
    )
    assert (ended.returncode != 0, ended.stdout) == (True, "")
    assert "This is AWS Lambda, where a process is frozen or ended between requests" in ended.stderr


@pytest.mark.anyio
async def test_a_server_that_is_not_strict_warns_and_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NETLIFY", "true")
    server = TaskServer("tools", store="memory://")
    async with server.tasks.lifespan(server):
        assert server.tasks.is_running
    assert "This is Netlify" in caplog.text
