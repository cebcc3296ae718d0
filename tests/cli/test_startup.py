"""What the command line imports: no more than it needs, so that it is quick to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.serving import PATIENCE, ROOT, environment

pytestmark = pytest.mark.slow
HEAVY = {"mcp", "mcp_types", "pydantic", "uvicorn", "jsonschema", "starlette", "httpx2", "uvloop", "anyio"}
SDK = {"mcp", "mcp_types", "uvicorn", "starlette", "httpx2", "uvloop"}


def imported(folder: Path, *command: str) -> set[str]:
    """Return the modules that a command imports, and check that it goes well."""
    done = subprocess.run(
        (sys.executable, "-X", "importtime", *command),
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    lines = done.stderr.splitlines()
    assert (done.returncode, [line for line in lines if not line.startswith("import time:")]) == (0, [])
    return {line.rpartition("|")[2].strip() for line in lines}


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("command", [["-c", "import coatcheck"], ["-c", "import coatcheck.errors"]])
def test_the_package_imports_next_to_nothing(command: list[str], tmp_path: Path) -> None:
    modules = imported(tmp_path, *command)
    assert {module for module in modules if module.startswith("coatcheck.")} <= {"coatcheck.errors"}
    assert packages(modules) & (HEAVY | {"msgspec", "sqlite3", "asyncio"}) == set()


@pytest.mark.parametrize(
    "command",
    [
        ["-c", "import coatcheck.cli"],
        ["-m", "coatcheck", "--version"],
        ["-m", "coatcheck", "--help"],
        ["-m", "coatcheck"],
    ],
)
def test_what_needs_no_command_loads_none(command: list[str], tmp_path: Path) -> None:
    modules = imported(tmp_path, *command)
    assert packages(modules) & HEAVY == set()
    ours = {module for module in modules if module.startswith("coatcheck.")}
    assert ours - {"coatcheck.cli", "coatcheck.errors", "coatcheck.__main__"} == {
        f"coatcheck.cli.{name}" for name in ("commands", "exits", "failures", "plain")
    }


@pytest.mark.parametrize(
    "command",
    [["tasks", "--offline"], ["call", "--help"], ["resume", "--help"], ["answer", "--help"], ["tasks", "--help"]],
)
def test_what_talks_to_no_server_needs_no_sdk(command: list[str], tmp_path: Path) -> None:
    modules = imported(tmp_path, "-m", "coatcheck", *command)
    assert packages(modules) & SDK == set()
    assert {module for module in modules if module.startswith("coatcheck.server")} == set()


def test_a_client_does_not_load_the_server(tmp_path: Path) -> None:
    modules = imported(tmp_path, "-c", "import coatcheck.cli.visit, coatcheck.cli.resuming, coatcheck.cli.looking")
    assert {module for module in modules if module.startswith(("coatcheck.server", "coatcheck.engine"))} == set()
    assert "uvloop" not in packages(modules)
