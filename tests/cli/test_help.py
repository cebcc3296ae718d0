"""What the command line says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import coatcheck
from tests.cli.caller import Caller
from tests.cli.serving import run

pytestmark = pytest.mark.slow


def test_the_help_shows_how_to_serve(tmp_path: Path) -> None:
    done = run(tmp_path, "serve", "--help")
    assert done.returncode == 0
    for word in ("coatcheck serve app:server", "--http", "--stdio", "--store", "--workers", "--concurrency"):
        assert word in done.stdout
    assert "COATCHECK_STORE" in done.stdout
    assert "127.0.0.1:8000" in done.stdout


def test_without_a_command_it_lists_the_commands(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert "serve" in done.stdout
    assert "Traceback" not in done.stderr


def test_it_says_its_version(tmp_path: Path) -> None:
    done = run(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"{coatcheck.__version__}\n")


COMMANDS = ["call", "tools", "tasks", "status", "wait", "resume", "answer", "cancel", "serve", "worker", "proxy"]


def test_the_commands_are_listed_with_what_they_do(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    listed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("│") and line[2].islower()]
    assert listed == COMMANDS
    assert done.returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_teaches_itself_by_examples(command: str, coatcheck: Caller) -> None:
    done = coatcheck(command, "--help")
    assert done.code == 0
    assert f" coatcheck {command}" in done.out.partition("Examples:")[2]


def test_a_misspelt_command_is_told_what_there_is(coatcheck: Caller) -> None:
    done = coatcheck("cal")
    assert (done.code, done.out) == (2, "")
    assert "Did you mean 'call'" in done.sentence


@pytest.mark.parametrize("command", ["call", "tools", "status", "wait", "answer", "cancel"])
def test_a_missing_argument_is_named(command: str, coatcheck: Caller) -> None:
    done = coatcheck(command)
    assert (done.code, done.out) == (2, "")
    assert done.sentence.startswith("Missing argument")
    assert done.sentence.endswith(f"Try 'coatcheck {command} --help'.")
