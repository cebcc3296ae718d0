"""What a process that is to run one task is told by who starts it, in its environment."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec

from coatcheck.errors import InvalidArgument
from coatcheck.liveness import TASK_VARIABLE

LETTER_VARIABLE = "COATCHECK_LETTER"


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """Which task, held by which attempt, and where to find the tool behind it."""

    task: str
    attempt: int
    store: str
    home: str
    """Names what opens the app: a function that takes this letter, see `child.Home`."""
    app: str
    """Names the app: `module:name`, or `path/to/file.py:name`."""
    more: dict[str, Any] = {}
    """Whatever else the home wants to be told."""
    path: tuple[str, ...] = ()
    """Where the starting process looks for modules."""


def write(letter: Letter, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with a letter in it."""
    return {**environment, TASK_VARIABLE: letter.task, LETTER_VARIABLE: msgspec.json.encode(letter).decode()}


def take(environment: MutableMapping[str, str]) -> Letter:
    """Return the letter, and leave none for what this process may start itself.

    Raises:
        InvalidArgument: There is none.
    """
    try:
        return msgspec.json.decode(environment.pop(LETTER_VARIABLE, ""), type=Letter)
    except msgspec.DecodeError as error:
        raise InvalidArgument("This program is started by coatcheck for one task, not by people.") from error
