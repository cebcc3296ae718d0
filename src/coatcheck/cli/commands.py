"""The commands by name. A module is imported when its command is called, not when it is listed."""

from __future__ import annotations

import importlib
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_DASHED_ID = re.compile(r"-[\w-]{20,}")
_CALLING, _TASKS, _SERVING = "Call tools", "Tasks that were handed in", "Serve tools"

SUMMARIES = {
    "call": (_CALLING, "Call a tool and wait for its result, however long it takes."),
    "tools": (_CALLING, "List the tools of a server, and what they take."),
    "tasks": (_TASKS, "List the tasks that were handed in from here."),
    "status": (_TASKS, "Say how a task is doing."),
    "wait": (_TASKS, "Wait for a task and print its result."),
    "resume": (_TASKS, "Wait for every task that was left, and print results as they come."),
    "answer": (_TASKS, "Answer what a task asks."),
    "cancel": (_TASKS, "Cancel a task."),
    "serve": (_SERVING, "Serve an MCP server's tools, with tasks."),
    "worker": (_SERVING, "Run the tasks of servers that share its store."),
    "proxy": (_SERVING, "Give tasks to any MCP servers: stand between them and their clients."),
}


class Commands(TyperGroup):
    """Knows its commands by name and summary; the one that is called is loaded."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=summary, rich_help_panel=panel)
            for name, (panel, summary) in SUMMARIES.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub and _load(stub.name or ""), list(map(_guarded, rest))


def _guarded(argument: str) -> str:
    """Return an id that begins with a dash so that it is not taken for options: with a space before it."""
    return f" {argument}" if _DASHED_ID.fullmatch(argument) else argument


def _load(name: str) -> Any:
    module = importlib.import_module(f"coatcheck.cli.{name}")
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    app.command(name)(getattr(module, name))
    return typer.main.get_command(app)
