"""What went wrong, in one sentence on stderr, and the exit code that goes with it. Never a traceback, unless wanted."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import Any, cast

import typer

from coatcheck.cli.exits import Exit, exit_code
from coatcheck.cli.plain import plain
from coatcheck.errors import CoatcheckError

DEBUG_VARIABLE = "COATCHECK_DEBUG"
# Typer keeps Click to itself; this name of Click's is the one it has always shown.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def report(error: BaseException) -> int:
    """Say what went wrong; return the exit code."""
    error = cause(error)
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    code = Exit.USAGE if isinstance(error, UsageError) else exit_code(error)
    say(_sentence(error))
    return code


def as_json(error: BaseException) -> dict[str, Any]:
    """Return what went wrong, for programs."""
    error = cause(error)
    about: dict[str, Any] = {"type": type(error).__name__, "message": _sentence(error), "exit_code": exit_code(error)}
    about |= {name: value for name in ("code", "data") if (value := getattr(error, name, None)) is not None}
    return {"id": getattr(error, "task_id", None), "error": about}


def say(sentence: str, colour: str | None = "red") -> None:
    """Say something on stderr, in a line of its own."""
    typer.secho(f"coatcheck: {sentence}", fg=colour if _is_colourful() else None, err=True)


def _sentence(error: BaseException) -> str:
    if isinstance(error, CoatcheckError):
        return plain(str(error))
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "Interrupted."
    if isinstance(error, UsageError):
        path = getattr(getattr(error, "ctx", None), "command_path", "coatcheck")
        said: str = getattr(error, "format_message", error.__str__)()
        return f"{said.rstrip('.?')}{'?' if said.endswith('?') else '.'} Try '{path} --help'."
    first = (str(error).splitlines() or [""])[0]
    return f"This should not happen: {type(error).__name__}: {first}. Set {DEBUG_VARIABLE}=1 to see where."


def cause(error: BaseException) -> BaseException:
    """Return the error itself, or what is in a group of one, or what we know of in a larger one."""
    while isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next((each for each in inner if isinstance(each, CoatcheckError)), inner[0])
    return error


def _is_colourful() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def end_quietly() -> int:
    """Whoever read our output has gone; what is buffered must not be written at exit either. Return the exit code."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13
