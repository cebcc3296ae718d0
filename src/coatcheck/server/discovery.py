"""What clients are told of tasks: in the handshake of 2025-11-25, and in the list of tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult

from coatcheck.dialects.words import IDEMPOTENCY_KEY, TASK_SUPPORT
from coatcheck.server.calls.caller import HANDSHAKE, MODERN, Acquaintances, Caller
from coatcheck.server.calls.offer import Offer, mode_towards, offer
from coatcheck.server.hook import RequestContext
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.runtime import Runtime
from coatcheck.server.taskless import ticket

Json = dict[str, Any]


class Discovery:
    def __init__(
        self,
        runtime: Runtime,
        policies: Mapping[str, TaskPolicy],
        acquaintances: Acquaintances,
        fallback_tools: Collection[str],
    ) -> None:
        """`fallback_tools` are the names of those that clients without tasks get in place of them."""
        self._runtime, self._policies, self._acquaintances = runtime, policies, acquaintances
        self._fallback_tools = fallback_tools

    async def initialize(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Declare tasks to clients of 2025-11-25, if there are any to be had."""
        result = await call_next(ctx)
        if isinstance(result, dict) and result.get("protocolVersion") in HANDSHAKE and self._policies:
            running = self._runtime.running
            lists = running.identity.will_tell_apart(ctx, running.server)
            declared: Json = {"cancel": {}, "requests": {"tools": {"call": {}}}}
            if lists:
                declared["list"] = {}
            ends = running.identity.will_bind_to_session(ctx, running.server)
            result["capabilities"] = {
                **_heeding_keys(result["capabilities"], ends_with_session=ends),
                "tasks": declared,
            }
        return result

    async def discover(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Say what there is beside the extension, which has to be declared without settings: clients check that."""
        result = await call_next(ctx)
        if isinstance(result, dict) and self._policies:
            result["capabilities"] = _heeding_keys(result["capabilities"])
        return result

    async def list_tools(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Tell clients of 2025-11-25 which tools may be tasks, and those without tasks how to do without."""
        result = await call_next(ctx)
        if not isinstance(result, dict) or not isinstance(tools := result.get("tools"), list):
            return result
        does_without = bool(self._policies) and not self._acquaintances.has_tasks(ctx)
        shown = [tool for tool in cast("list[Json]", tools) if does_without or tool["name"] not in self._fallback_tools]
        return {**result, "tools": [self._described(tool, ctx, does_without) for tool in shown]}

    def _described(self, tool: Json, ctx: RequestContext, does_without: bool) -> Json:
        policy = self._policies.get(tool["name"])
        if self._policies and ctx.protocol_version in MODERN:
            support = mode_towards(policy, Caller.ACCEPTS_TASKS) if policy else "forbidden"
            tool = {**tool, "_meta": {**(tool.get("_meta") or {}), TASK_SUPPORT: support}}
        if policy is None:
            return tool
        if ctx.protocol_version in HANDSHAKE:
            tool = {**tool, "execution": {"taskSupport": mode_towards(policy, Caller.ASKS_FOR_TASK)}}
        schema = tool.get("outputSchema")
        if schema and does_without and offer(policy, Caller.KNOWS_NO_TASKS) is Offer.HOLD:
            tool = {**tool, "outputSchema": _or_ticket(schema)}
        return tool


def _heeding_keys(capabilities: Any, *, ends_with_session: bool = False) -> Json:
    heeded = {"scope": "session"} if ends_with_session else {}
    experimental: Json = {**(capabilities.get("experimental") or {}), IDEMPOTENCY_KEY: heeded}
    return {**capabilities, "experimental": experimental}


def _or_ticket(schema: Json) -> Json:
    """Return a schema that also allows a ticket, so that clients which check results let one pass."""
    shared = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}
    own = {key: value for key, value in schema.items() if key not in shared}
    return {**shared, "type": "object", "anyOf": [own, ticket.SCHEMA]}
