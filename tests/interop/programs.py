"""Programs with clients that others wrote: what they are run against, and what they report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.conformance.node import NODE, packages
from tests.conformance.serving import PATIENCE, serving
from tests.interop import venvs

OLD_SDK = "1.30.0"
"""The last of the Python SDK that has tasks of its own."""

Report = dict[str, dict[str, Any]]
"""What was seen, by scenario."""

_HERE = Path(__file__).parent
_SERVER = f"{_HERE / 'server.py'}:server"


@contextmanager
def target(transport: str, folder: Path) -> Generator[Sequence[str]]:
    """Give what a program is told about the server: the URL of one that runs, or the command that starts one."""
    if transport == "http":
        with serving(_SERVER, folder) as url:
            yield [url]
    else:
        serve = (sys.executable, "-m", "coatcheck", "serve", _SERVER, "--stdio", "--log-level", "warning")
        yield [*serve, "--store", f"sqlite:///{folder}/tasks.db"]


def python_sdk(target: Sequence[str]) -> Report:
    return _report(venvs.python("mcp", OLD_SDK), _HERE / "sdk_v1_client.py", *target)


def typescript_sdk(target: Sequence[str]) -> Report:
    return _node("sdk_v1.mjs", target)


def ext_tasks(target: Sequence[str]) -> Report:
    return _node("ext_tasks_2025.mjs", target)


def _node(program: str, target: Sequence[str]) -> Report:
    """The program is its standard input, so that imports are looked for where it runs."""
    with (_HERE / program).open() as source:
        return _report(NODE, "--input-type=module", "-", *target, stdin=source, cwd=packages())


def _report(*command: str | Path, **options: Any) -> Report:
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, **options)
    assert done.returncode == 0, done.stderr
    lines = msgspec.json.Decoder(dict[str, Any]).decode_lines(done.stdout)
    return {line.pop("scenario"): line for line in lines}
