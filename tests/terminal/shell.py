"""A shell with `coatcheck` in memory, so that a command starts at once: `python -m tests.terminal.shell`.

It is typed into as any other: `NAME=VALUE` for the environment, `coatcheck …` for the rest. A command is a fork of this
process with the terminal to itself, and does what the executable does. What it ends with is printed after it.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from typing import NoReturn

import coatcheck.cli.looking
import coatcheck.cli.resuming
from coatcheck.cli import answer, call, cancel, main, resume, status, tasks, tools, wait

LOADED = (answer, call, cancel, resume, status, tasks, tools, wait, coatcheck.cli.looking, coatcheck.cli.resuming)
PROMPT = "ready$ "
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def shell() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        words = shlex.split(input(PROMPT))
        match words:
            case ["coatcheck", *_]:
                print(CLEAR, end="", flush=True)
                print(f"exit={_run(words)}")
            case [assignment] if "=" in assignment:
                name, _, value = assignment.partition("=")
                os.environ[name] = value
            case _:
                print(CLEAR, end="")


def _run(words: list[str]) -> int:
    child = os.fork()
    if not child:
        _be(words)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _be(words: list[str]) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = words
    code = 70
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    shell()
