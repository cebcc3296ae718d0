"""coatcheck: hand in a slow tool call, get a task, come back for the result."""

from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.errors import (
    AlreadyFinished,
    BadStoreURL,
    CoatcheckError,
    IdempotencyConflict,
    InvalidAnswer,
    InvalidArgument,
    KeyRefused,
    NotAnswered,
    QuotaExceeded,
    StoreError,
    TaskNotFound,
    ToolFailed,
)
from coatcheck.payload import decode
from coatcheck.policy import Policy, Terms
from coatcheck.sync_context import SyncContext
from coatcheck.task import Status, Task
from coatcheck.tool import Tool
from coatcheck.wiring import new_key, open_engine, open_store, tool
from coatcheck.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AlreadyFinished",
    "BadStoreURL",
    "CoatcheckError",
    "Engine",
    "IdempotencyConflict",
    "InvalidAnswer",
    "InvalidArgument",
    "KeyRefused",
    "NotAnswered",
    "Policy",
    "QuotaExceeded",
    "Status",
    "StoreError",
    "SyncContext",
    "Task",
    "TaskContext",
    "TaskNotFound",
    "Terms",
    "Tool",
    "ToolFailed",
    "Worker",
    "decode",
    "new_key",
    "open_engine",
    "open_store",
    "tool",
]
