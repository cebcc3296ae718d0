"""Clients that others wrote, each a process of its own that does as it is told."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import msgspec

from tests.conformance.node import NODE, packages
from tests.interop import venvs
from tests.interop.programs import OLD_SDK
from tests.processes import PATIENCE

Json = dict[str, Any]

_PROGRAMS = Path(__file__).parent / "programs"
_ROOT = Path(__file__).parents[3]


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class Puppet:
    """A client: what it is told to do, and what it was told and asked meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.asked: list[Json] = []
        self.heard: list[Json] = []
        self.is_ready: Future[Any] = Future()
        self._process, self._numbers = process, count()
        self._begun: dict[int, Future[Any]] = {}
        self._news = Condition()

    def begin(self, verb: str, /, **told: Any) -> Future[Any]:
        """Have it do something, and give what will come of it."""
        number = next(self._numbers)
        future = self._begun[number] = Future()
        assert self._process.stdin
        self._process.stdin.write(msgspec.json.encode({"number": number, "verb": verb, "told": told}) + b"\n")
        self._process.stdin.flush()
        return future

    def do(self, verb: str, /, **told: Any) -> Any:
        return self.begin(verb, **told).result(PATIENCE)

    def call(self, name: str, /, **arguments: Any) -> Json:
        return self.do("call", name=name, arguments=arguments)

    def until(self, method: str, fits: Callable[[Json], bool] = lambda _: True, *, since: int = 0) -> Json:
        """Return the parameters of the first such notification, heard already or yet to come."""

        def found() -> Json | None:
            said: list[Json] = [each.get("params") or {} for each in self.heard[since:] if each["heard"] == method]
            return next((params for params in said if fits(params)), None)

        deadline = time.monotonic() + PATIENCE
        with self._news:
            while (params := found()) is None:
                if not self._news.wait(deadline - time.monotonic()):
                    raise AssertionError(f"It never heard of {method}, but of {self.heard[since:]}")
            return params

    def listen(self) -> None:
        """Take in what it says, until it says no more."""
        assert self._process.stdout
        for line in self._process.stdout:
            self._take(msgspec.json.decode(line))
        gone = AssertionError("The client has gone")
        for future in (self.is_ready, *self._begun.values()):
            if not future.done():
                future.set_exception(gone)

    def _take(self, said: Json) -> None:
        match said:
            case {"ready": _}:
                self.is_ready.set_result(True)
            case {"asked": _}:
                self.asked.append(said)
            case {"heard": _}:
                with self._news:
                    self.heard.append(said)
                    self._news.notify_all()
            case {"id": number, "done": done}:
                self._begun[number].set_result(done)
            case {"id": number, "error": error}:
                self._begun[number].set_exception(Refused(error["code"], error["message"], error.get("data")))
            case _:
                self._begun[said["id"]].set_exception(AssertionError(said["wrong"]))


@contextmanager
def playing(kind: str, root: Path, target: Sequence[str]) -> Generator[Puppet]:
    """Run a client of a kind against a server: its URL, or its command."""
    command, folder = _command(kind, root, target)
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=said)
        puppet = Puppet(process)
        listener = Thread(target=puppet.listen)
        listener.start()
        try:
            puppet.is_ready.result(PATIENCE)
            yield puppet
        except BaseException as error:
            said.seek(0)
            error.add_note(f"The client said: {said.read().decode(errors='replace')}")
            raise
        finally:
            _end(process)
            listener.join()
            assert process.stdout
            process.stdout.close()


def _command(kind: str, root: Path, target: Sequence[str]) -> tuple[Sequence[str | Path], Path]:
    """Return what starts a client of a kind, and where."""
    match kind.split("-"):
        case ["python_v1"]:
            return [venvs.python("mcp", OLD_SDK), _PROGRAMS / "sdk_v1.py", root, *target], root
        case ["python_v2", mode]:
            return [sys.executable, _PROGRAMS / "sdk_v2.py", root, mode, *target], root
        case ["typescript_v1"]:
            return [*_node("sdk_v1.mjs"), root, *target], packages()
        case ["ext_tasks", generation]:
            return [*_node("ext_tasks.mjs"), root, generation, *target], packages()
        case _:
            raise ValueError(kind)


def _node(program: str) -> Sequence[str | Path]:
    """The program is an argument, so that imports are looked for where it runs."""
    source = (_PROGRAMS / program).read_text()
    return [NODE, "--input-type=module", "--eval", source, _PROGRAMS / "puppet.mjs"]


def _end(process: subprocess.Popen[bytes]) -> None:
    """A client that is told no more leaves by itself."""
    assert process.stdin
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(PATIENCE)
