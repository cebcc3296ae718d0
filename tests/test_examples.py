"""The examples run as they stand, and the README shows the first of them."""

import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import forked

ROOT = Path(__file__).parent.parent
SERVED = {"client", "fastapi_app", "quickstart", "server"}
PROGRAMS = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in SERVED]
PATIENCE = 120


@pytest.mark.slow
@pytest.mark.parametrize("example", PROGRAMS, ids=lambda example: example.stem)
def test_an_example_runs_to_its_end(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()


CALLS = {
    ("quickstart", "count_words", '{"pages": 2}'): "{'result': 300}",
    ("server", "report", '{"pages": 2}'): "{'result': 'A report of 2 pages'}",
    ("server", "deploy", '{"version": "2.1"}'): "{'result': '2.1 is live: fine'}",
    ("server", "primes", '{"below": 100}'): "{'result': 25}",
    ("server", "measure", '{"cities": ["Fez"]}'): "{'result': [{'city': 'Fez', 'celsius': 13, 'process': PID}]}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "server"])
def test_the_tools_of_a_server_are_called_by_the_client(name: str, tmp_path: Path) -> None:
    with serving(name, tmp_path) as (url, pid):
        for (server, tool, arguments), result in CALLS.items():
            if server == name:
                said = call(tmp_path, url, tool, arguments)
                assert said[-1] == result.replace("PID", str(pid))
                assert "completed: " in said[-2]  # so it was a task


@pytest.mark.slow
def test_the_client_lists_the_tools_of_a_server(tmp_path: Path) -> None:
    with serving("server", tmp_path) as (url, _):
        assert [line.partition(":")[0] for line in call(tmp_path, url)] == ["report", "deploy", "primes", "measure"]


def call(folder: Path, *arguments: str) -> list[str]:
    """Run the client, which is told `yes` should it ask."""
    answer = '{"approved": true, "comment": "fine"}\n'
    done = forked.run(be_the_client, *arguments, folder=folder, within=PATIENCE, given=answer)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def be_the_client(*arguments: str) -> None:
    """Do in this process what `python examples/client.py` does."""
    client = str(ROOT / "examples/client.py")
    sys.argv = [client, *arguments]
    runpy.run_path(client, run_name="__main__")


@contextmanager
def serving(name: str, folder: Path) -> Generator[tuple[str, int]]:
    """Serve an example; give the URL of its endpoint, and its process id."""
    target = f"{ROOT}/examples/{name}.py:server"
    command = (sys.executable, "-m", "coatcheck", "serve", target, "--http", "127.0.0.1:0")
    state = {**os.environ, "XDG_STATE_HOME": str(folder)}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=state, stdout=log, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr
        try:
            said = [process.stderr.readline(), process.stderr.readline()]
            endpoint = re.search(r"http://\S+", said[-1])
            assert endpoint, said
            yield endpoint[0], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()  # to its end, lest it wait for a reader


def test_the_readme_shows_the_quick_start() -> None:
    shown = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown
    docstring, program = (ROOT / "examples/quickstart.py").read_text().split("\n\n", maxsplit=1)
    assert docstring.startswith('"""')
    assert program == shown[1]
