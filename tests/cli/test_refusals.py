"""What the command line refuses, and how: one sentence that names what is wrong and what to do instead."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from coatcheck.cli import main
from tests.cli.serving import run

APP = 'from coatcheck.server import TaskServer\n\nserver = TaskServer("app")\n'
MODULES = {
    "app": APP,
    "two": f'{APP}\nother = TaskServer("other")\nnumber = 3\n',
    "none": "number = 3\n",
    "needy": "import no_such_package\n",
    "faulty": 'def connect():\n    raise OSError("the database is away")\n\n\nconnect()\n',
}

Refused = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.fixture
def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Generator[Refused]:
    """Run `coatcheck serve` in this process, for what ends before anything is served; return what it said."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(logging.root, "handlers", [*logging.root.handlers])

    def refused(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["coatcheck", "serve", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, "")
        return said.err

    level = logging.root.level
    yield refused
    logging.root.setLevel(level)
    for name in MODULES:
        sys.modules.pop(name, None)


def sentence(said: str) -> str:
    """Return the one sentence it said, without the name before it."""
    (line,) = said.splitlines()
    assert line.startswith("coatcheck: ")
    assert line.endswith(".")
    return line.removeprefix("coatcheck: ")


# Targets


@pytest.mark.parametrize("target", ["nowhere", "nowhere:server", "nowhere.deeper:server", "app.server"])
def test_a_module_that_is_not_there_is_named(target: str, refused: Refused) -> None:
    module = target.partition(":")[0]
    assert sentence(refused(target, "--stdio")) == (
        f"There is no module {module!r} here; name one as module:server or file.py:server."
    )


def test_a_file_that_is_not_there_is_named(refused: Refused) -> None:
    assert sentence(refused("nowhere.py:server", "--stdio")).startswith("There is no file nowhere.py;")


def test_a_module_without_a_server_is_told_so(refused: Refused) -> None:
    assert (
        sentence(refused("none", "--stdio"))
        == 'none has no server; make one with server = TaskServer("name"), or name another module.'
    )


@pytest.mark.parametrize("target", ["two", "two:nothing", "two:number"])
def test_of_several_servers_one_must_be_named(target: str, refused: Refused) -> None:
    assert sentence(refused(target, "--stdio")).endswith("; there is two:server, two:other.")


def test_the_servers_of_a_file_are_named_as_one_would_write_them(refused: Refused) -> None:
    assert "two.py:server" in sentence(refused("two.py", "--stdio"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "line", "error"),
    [
        ("faulty.py", 'raise OSError("the database is away")', "OSError: the database is away"),
        ("needy:server", "import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_an_error_in_the_authors_module_shows_the_authors_traceback(
    target: str, line: str, error: str, folder: Path
) -> None:
    done = run(folder, "serve", target, "--http", ":0")
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.endswith(f"{error}\n")


# Addresses


@pytest.mark.parametrize("address", ["8000 ", "localhost", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1"])
def test_what_is_no_address_is_refused_with_one_that_is(address: str, refused: Refused) -> None:
    said = sentence(refused("app", "--http", address))
    assert said == f"{address!r} is no host:port; write --http 127.0.0.1:8000."


@pytest.mark.slow
def test_a_port_in_use_is_named(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(folder, "serve", "app", "--http", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence(done.stderr) == f"Cannot listen at {address}: Address already in use."


@pytest.mark.slow
def test_a_path_must_begin_with_a_slash(folder: Path) -> None:
    done = run(folder, "serve", "app", "--http", ":0", "--path", "mcp")
    assert "/mcp" in sentence(done.stderr)


# Options


def test_stdio_and_http_are_not_both_served(refused: Refused) -> None:
    assert sentence(refused("app", "--stdio", "--http", ":0")) == "Choose one of --stdio and --http."


def test_stdio_has_one_process(refused: Refused) -> None:
    assert "leave --workers out" in sentence(refused("app", "--stdio", "--workers", "2"))


def test_a_level_that_is_none_is_refused_with_those_that_are(refused: Refused) -> None:
    said = sentence(refused("app", "--log-level", "loud"))
    assert said == "There is no log level 'loud'; use debug, info, warning or error."


@pytest.mark.parametrize(
    ("option", "value"), [("--workers", "0"), ("--concurrency", "-1"), ("--log-format", "x"), ("--loud", "1")]
)
def test_a_value_out_of_range_is_refused(option: str, value: str, refused: Refused) -> None:
    assert option in refused("app", option, value)


# Stores


STORES = {
    "mysql://x": "names no store",
    "sqlite:///": "names no file",
    "sqlite:////proc/nowhere/tasks.db": "Cannot write",
}


@pytest.mark.slow
@pytest.mark.parametrize("url", STORES)
def test_a_store_that_cannot_be_used_ends_the_server(url: str, folder: Path) -> None:
    done = run(folder, "serve", "app", "--http", ":0", "--store", url)
    assert done.returncode != 0
    assert STORES[url] in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("transport", [("--http", ":0"), ("--stdio",)], ids=["http", "stdio"])
def test_a_store_that_cannot_be_used_is_told_in_a_sentence(transport: tuple[str, ...], folder: Path) -> None:
    done = run(folder, "serve", "app", *transport, COATCHECK_STORE="mysql://x")
    assert done.returncode == 2
    assert STORES["mysql://x"] in sentence(done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--workers", "2"), ("--concurrency", "0")], ids=["workers", "concurrency"])
def test_memory_that_others_would_have_to_share_is_refused(option: tuple[str, str], folder: Path) -> None:
    done = run(folder, "serve", "app", "--http", ":0", "--store", "memory://", *option, within=10)
    assert done.returncode == 2
    assert "sqlite:///" in sentence(done.stderr)
