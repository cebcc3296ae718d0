"""The client: for programs that call tools of MCP servers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coatcheck.client.client import Client
    from coatcheck.client.extension import TasksExtension
    from coatcheck.client.handle import TaskHandle
    from coatcheck.client.results import ToolResult
    from coatcheck.client.tools import ToolInfo
    from coatcheck.dialects.seen import Question, Snapshot

__all__ = ["Client", "Question", "Snapshot", "TaskHandle", "TasksExtension", "ToolInfo", "ToolResult"]

# Imported when asked for: the ledger alone, for one, does without the SDK.
_HOMES = {
    "Client": "coatcheck.client.client",
    "Question": "coatcheck.dialects.seen",
    "Snapshot": "coatcheck.dialects.seen",
    "TaskHandle": "coatcheck.client.handle",
    "TasksExtension": "coatcheck.client.extension",
    "ToolInfo": "coatcheck.client.tools",
    "ToolResult": "coatcheck.client.results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
