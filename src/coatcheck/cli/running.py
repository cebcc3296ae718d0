"""Carrying out a command's work, and what programs are told if it fails."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any

import typer

from coatcheck.cli.failures import DEBUG_VARIABLE, as_json, end_quietly
from coatcheck.cli.output import write_json
from coatcheck.errors import CoatcheckError


def run(work: Coroutine[Any, Any, int], *, is_json: bool) -> None:
    """Carry out the work, and end with the exit code that it returns.

    Raises:
        Exception: What went wrong; with `is_json`, it has been told to programs already.
    """
    _configure_logs()
    try:
        code = asyncio.run(work)
    except BrokenPipeError:
        code = end_quietly()
    except (CoatcheckError, KeyboardInterrupt, BaseExceptionGroup) as error:
        if is_json:
            write_json(as_json(error))
        raise
    raise typer.Exit(code)


def _configure_logs() -> None:
    """What libraries log would run across the display; it is shown to who looks for faults."""
    if os.environ.get(DEBUG_VARIABLE):
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    elif not logging.root.handlers:
        logging.root.addHandler(logging.NullHandler())
