"""What the exit codes mean, and which error ends with which."""

from __future__ import annotations

from enum import IntEnum

from coatcheck import errors


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    ASKED = 4
    LOST = 5
    CANCELLED = 6
    BUG = 70
    TIMEOUT = 124
    INTERRUPTED = 130


class Unfinished(errors.CoatcheckError):
    """Nobody waits any more; what was waited for goes on."""

    def __init__(self, sentence: str, task_id: str | None = None) -> None:
        super().__init__(sentence)
        self.task_id = task_id


class StillRunning(Unfinished):
    """It was waited for as long as was asked."""


class Unanswered(Unfinished):
    """It asks something, and there is nobody here to answer."""


class LeftRunning(Unfinished):
    """Whoever waited was interrupted."""


_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (errors.CannotConnect, Exit.UNREACHABLE),
    (errors.Interrupted, Exit.UNREACHABLE),
    (errors.ToolFailed, Exit.FAILED),
    (errors.ServerError, Exit.FAILED),
    (errors.ProtocolViolation, Exit.FAILED),
    (errors.InputRequired, Exit.ASKED),
    (errors.TaskLost, Exit.LOST),
    (errors.TaskNotFound, Exit.LOST),
    (errors.TaskCancelled, Exit.CANCELLED),
    (Unanswered, Exit.ASKED),
    (StillRunning, Exit.TIMEOUT),
    (LeftRunning, Exit.INTERRUPTED),
    (KeyboardInterrupt, Exit.INTERRUPTED),
    (errors.CoatcheckError, Exit.USAGE),
)


def exit_code(error: BaseException) -> Exit:
    """Return the code that a command ends with because of `error`."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.BUG)
