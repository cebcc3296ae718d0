"""What a host does with each of the clients to get at a result, be it quick or slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.processes import PATIENCE
from tests.proxy.foreign.puppets import Json, Puppet

T = TypeVar("T")

CLIENTS = (
    "python_v1-http",
    "python_v1-stdio",
    "python_v2-legacy-http",
    "python_v2-auto-http",
    "python_v2-auto-stdio",
    "typescript_v1-http",
    "ext_tasks-2025-http",
    "ext_tasks-2025-stdio",
    "ext_tasks-2026-http",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, and what is known of its kind."""

    kind: str
    puppet: Puppet

    @property
    def is_modern(self) -> bool:
        """Whether it speaks 2026-07-28, in which nobody is asked but in answer to a call of theirs."""
        return self.kind in ("python_v2-auto", "ext_tasks-2026")

    @property
    def way(self) -> str:
        """How it comes to the result of a slow call."""
        return "ticket" if self.kind.startswith("python_v2") else "task"

    def collect(self, name: str, /, **arguments: Any) -> Json:
        """Return the result of a call, quick or slow, and the `kind` of call that it was."""
        if self.way == "task":
            return self.puppet.do("task", name=name, arguments=arguments)
        result = self.puppet.call(name, **arguments)
        kind = "ticket" if ticket_of(result) else "immediate"
        while task := ticket_of(result):
            for question in task.get("questions", ()):
                self._answer(task["taskId"], question)
            result = self.puppet.call("wait_task", task_id=task["taskId"])
        return {"kind": kind, "result": result}

    def cancel(self, name: str, /, **arguments: Any) -> str:
        """Have a call made and cancelled, and return how it stands afterwards."""
        if self.way == "task":
            return self.puppet.do("cancel", name=name, arguments=arguments)["later"]
        task = ticket_of(self.puppet.call(name, **arguments))
        assert task
        cancelled = ticket_of(self.puppet.call("cancel_task", task_id=task["taskId"]))
        return cancelled["status"] if cancelled else "unknown"

    def _answer(self, task_id: str, question: Json) -> None:
        """Answer as its user would, asked by a model."""
        schema = question["params"]["requestedSchema"]
        name, field = next(iter(schema["properties"].items()))
        content = {name: field["oneOf"][0]["const"] if "oneOf" in field else "Ada"}
        self.puppet.asked.append({"asked": question["method"], "params": question["params"]})
        self.puppet.call("answer_task", task_id=task_id, content=content)


def ticket_of(result: Json) -> Json | None:
    """Return the task of which a result is the ticket, if it is one."""
    structured: Json = result.get("structuredContent") or {}
    return structured.get("task")


def text_of(result: Json) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def at_once(calls: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Return what they return, all made at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        begun = {name: pool.submit(call) for name, call in calls.items()}
        return {name: future.result(PATIENCE) for name, future in begun.items()}
