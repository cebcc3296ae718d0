"""coatcheck: hand in a slow tool call, get a task, come back for the result."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coatcheck.client import Client, Snapshot, TaskHandle
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
    "Client",
    "CoatcheckError",
    "Engine",
    "IdempotencyConflict",
    "InvalidAnswer",
    "InvalidArgument",
    "KeyRefused",
    "NotAnswered",
    "Policy",
    "QuotaExceeded",
    "Snapshot",
    "Status",
    "StoreError",
    "SyncContext",
    "Task",
    "TaskContext",
    "TaskHandle",
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

# Imported when asked for, so that who needs a name or two does not wait for all of them.
_MODULES = {
    "client": ("Client", "Snapshot", "TaskHandle"),
    "context": ("TaskContext",),
    "engine": ("Engine",),
    "payload": ("decode",),
    "policy": ("Policy", "Terms"),
    "sync_context": ("SyncContext",),
    "task": ("Status", "Task"),
    "tool": ("Tool",),
    "wiring": ("new_key", "open_engine", "open_store", "tool"),
    "worker": ("Worker",),
}
_HOMES = dict.fromkeys(__all__, "errors") | {name: home for home, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`coatcheck.tool` is the function, also after the module of that name was imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
