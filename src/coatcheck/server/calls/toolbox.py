"""The tools that may be tasks, as the SDK, the worker and the shorter way through HTTP know them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver.tools import Tool as SDKTool
from mcp.shared.inbound import X_MCP_HEADER_KEY
from pydantic.fields import FieldInfo

from coatcheck.context import TaskContext
from coatcheck.errors import InvalidArgument
from coatcheck.server.bodies.body import run_body
from coatcheck.server.bodies.kinds import TOOL, kind_of
from coatcheck.server.calls.stand_in import stand_in, takes_context
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.runtime import Runtime
from coatcheck.tool import Outcome, Tool


@dataclass(frozen=True, slots=True)
class SimpleTool:
    """A tool that takes nothing from its caller but arguments."""

    validate: Callable[[dict[str, Any]], Any]
    takes_context: bool


def validator(function: Callable[..., Any], name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what makes the arguments a tool gets of those that are sent."""
    return SDKTool.from_function(function, name, structured_output=False).fn_metadata.validate_arguments


def completer(function: Callable[..., Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what adds to the arguments of a prompt or a template those that are left out, by their defaults."""
    defaults = {
        name: _default(parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }
    return lambda given: {**defaults, **given}


def _default(said: Any) -> Any:
    is_described = isinstance(said, FieldInfo) and not said.is_required()
    return said.get_default(call_default_factory=True, validated_data={}) if is_described else said


class Toolbox:
    def __init__(self, runtime: Runtime, policies: dict[str, TaskPolicy] | None = None) -> None:
        self._runtime = runtime
        self.policies: dict[str, TaskPolicy] = {} if policies is None else policies
        self.simple: dict[str, SimpleTool] = {}
        self.plain: set[str] = set()
        """Tools that are never tasks, but take a `TaskContext`."""
        self.contents: dict[str, TaskPolicy] = {}
        """What was said of resources and prompts, by the names of their rows: whether they may be tasks."""

    def add(self, function: Callable[..., Any], name: str, policy: TaskPolicy) -> Callable[..., Any]:
        """Return what to register with the server under `name` in place of `function`.

        Raises:
            InvalidArgument: Its tasks could not be told from those of a resource or a prompt.
        """
        if policy.mode != "forbidden" and kind_of(name) is not TOOL:
            raise InvalidArgument(
                f"A tool called {name!r} cannot be a task, as resources and prompts are called so; name it otherwise."
            )
        self.remove(name)
        if policy.mode == "forbidden":
            if not takes_context(function):
                return function
            self.plain.add(name)
            return stand_in(function, name)
        self.policies[name] = policy
        if self._runtime.is_running and (worker := self._runtime.running.worker):
            worker.add(self.tool(name), replace=True)
        return stand_in(function, name)

    def add_content(self, row: str, policy: TaskPolicy) -> None:
        """Let a resource or a prompt be tasks, or not. The first to say it is right, as of two with one name the first
        stays.
        """
        if self.contents.setdefault(row, policy) is not policy or policy.mode == "forbidden":
            return
        if self._runtime.is_running and (worker := self._runtime.running.worker):
            worker.add(self.tool(row), replace=True)

    def policy_of(self, row: str) -> TaskPolicy | None:
        """Return what holds for calls that become this row; None: they are no tasks."""
        policy = self.policies.get(row) or self.contents.get(row)
        return None if policy is None or policy.mode == "forbidden" else policy

    def remove(self, name: str) -> None:
        self.policies.pop(name, None)
        self.contents.pop(name, None)
        self.simple.pop(name, None)
        self.plain.discard(name)
        if self._runtime.is_running and (worker := self._runtime.running.worker):
            worker.remove(name)

    def note_simple(self, function: Callable[..., Any], name: str) -> None:
        """Remember how to validate a tool's arguments, if they are all it takes: then it can be handed in directly."""
        policy = self.policies.get(name)
        if policy is None or policy.patience is not None:
            return
        tool = SDKTool.from_function(function, name)
        if not tool.resolved_params and X_MCP_HEADER_KEY not in str(tool.parameters):
            self.simple[name] = SimpleTool(tool.fn_metadata.validate_arguments, tool.context_kwarg is not None)

    def all(self) -> list[Tool]:
        """Return the tools as the worker knows them."""
        return [self.tool(name) for name in self._names()]

    def bodies(self) -> list[Tool]:
        """Return them as they are where they run."""
        return [self.body(name) for name in self._names()]

    def _names(self) -> list[str]:
        return [name for name in (*self.policies, *self.contents) if self.policy_of(name)]

    def tool(self, name: str) -> Tool:
        body = self.body(name)
        return self._runtime.detach(body) if self._policy(name).detached is True else body

    def body(self, name: str) -> Tool:
        """Return a tool as it is where it runs."""
        policy = self._policy(name)

        def work(context: TaskContext, arguments: Mapping[str, Any]) -> Awaitable[Outcome]:
            simple = self.simple.get(name)
            return run_body(self._runtime.running, context, arguments, simple is None or simple.takes_context)

        return Tool(name=name, work=work, terms=policy.terms(), accepts=policy.also, timeout=policy.limit)

    def _policy(self, row: str) -> TaskPolicy:
        policy = self.policy_of(row)
        assert policy, "only what is in the box is looked for by its name"
        return policy
