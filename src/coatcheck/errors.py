"""Everything that can be refused. Wire error codes live in the dialects, not here."""

_LONGEST_REASON = 300


class CoatcheckError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidArgument(CoatcheckError, ValueError):
    """A caller passed something that cannot be used; nothing was written."""


class InvalidAnswer(InvalidArgument):
    """An answer does not fit its question, which stays open."""

    def __init__(self, key: str, reason: str) -> None:
        if len(reason) > _LONGEST_REASON:  # it may quote all of what came in
            reason = f"{reason[:_LONGEST_REASON]}…"
        super().__init__(f"The answer to {key!r} does not fit the question: {reason}. The question is still open.")
        self.key, self.reason = key, reason


class IdempotencyConflict(InvalidArgument):
    """The idempotency key already stands for another call."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency key {key!r} was already used for a different call; "
            "use a new key, or repeat the same tool and arguments."
        )
        self.key = key


class QuotaExceeded(CoatcheckError):
    """There are as many unfinished tasks of an owner, or of all without one, as there may be; nothing was written."""

    def __init__(self, quota: int, owner: str | None) -> None:
        whose = "There are already" if owner is None else "You already have"
        super().__init__(f"{whose} {quota} unfinished tasks, the most allowed; wait for one to finish or cancel one.")
        self.quota = quota


class TaskNotFound(CoatcheckError):
    """No such task for this caller: missing, expired and foreign look the same."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task {task_id} not found")
        self.task_id = task_id


class Refused(CoatcheckError):
    """The task's state does not allow this event."""


class AlreadyFinished(Refused):
    """The task is terminal; nothing changes it any more."""

    def __init__(self, task_id: str, status: str) -> None:
        super().__init__(f"Task {task_id} is already {status}")
        self.task_id, self.status = task_id, status


class LeaseLost(Refused):
    """The reporting worker no longer holds the task."""


class NotAnswered(CoatcheckError):
    """Whoever was asked answered with an error, which is now the work's to deal with."""

    def __init__(self, message: str, code: int = -32603, data: object = None) -> None:
        super().__init__(message)
        self.message, self.code, self.data = message, code, data


class ToolFailed(CoatcheckError):
    """Raised by a tool to end its task as failed, with an error code and data of its own."""

    def __init__(self, message: str, code: int | None = None, data: object = None) -> None:
        super().__init__(message)
        self.message, self.code, self.data = message, code, data


class StoreError(CoatcheckError):
    """The store cannot do what it was asked; the message says what to do about it."""


class BadStoreURL(StoreError, InvalidArgument):
    """The URL names no store this library knows."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, read or written just now."""


class StoreUnusable(StoreError):
    """What the store holds is not ours, is damaged, or comes from a newer version. It was not touched."""


class KeyRefused(StoreError):
    """The encryption key is missing, malformed, or not the one the data was sealed with."""
