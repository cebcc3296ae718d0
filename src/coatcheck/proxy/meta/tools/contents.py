"""The tools for what servers have: tools, resources, prompts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from mcp.shared.exceptions import MCPError
from pydantic import Field

from coatcheck.client.wire import Json
from coatcheck.errors import CoatcheckError
from coatcheck.proxy.diagrams import read_diagrams
from coatcheck.proxy.framing import neutral
from coatcheck.proxy.meta.counter import Caller, Counter, Ctx
from coatcheck.proxy.meta.refusals import INVALID_ARGUMENT, ToolRefusal
from coatcheck.proxy.upstreams.catalog import Kind
from coatcheck.proxy.upstreams.upstream import Upstream

ServerFilter = Annotated[str | None, Field(description="Only this server")]
ServerName = Annotated[str, Field(description="The server that has it")]


class ContentTools:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def list_tools(
        self,
        ctx: Ctx,
        server: ServerFilter = None,
        pattern: Annotated[str | None, Field(description="A regular expression for names and descriptions")] = None,
    ) -> Json:
        """List the tools of all servers, or of one, with what they take."""
        caller = await self._counter.caller(ctx)
        fits = _filter(pattern)

        async def of(upstream: Upstream) -> list[Json]:
            return [
                dict(tool.raw)
                for name, tool in (await upstream.tools()).items()
                if fits(tool.raw) and await caller.guard.shows_tool(upstream.name, name)
            ]

        return await _gathered(caller, server, "tools", of)

    async def list_resources(self, ctx: Ctx, server: ServerFilter = None) -> Json:
        """List the resources of all servers, or of one."""
        caller = await self._counter.caller(ctx)
        return await _gathered(caller, server, "resources", lambda upstream: upstream.items(Kind.RESOURCES))

    async def list_resource_templates(self, ctx: Ctx, server: ServerFilter = None) -> Json:
        """List the templates of resources of all servers, or of one."""
        caller = await self._counter.caller(ctx)
        return await _gathered(caller, server, "resource_templates", lambda upstream: upstream.items(Kind.TEMPLATES))

    async def read_resource(self, ctx: Ctx, server: ServerName, uri: str) -> Json:
        """Read a resource of a server."""
        caller = await self._counter.caller(ctx)
        if own := read_diagrams(uri):
            return own
        upstream = await caller.upstream(server)
        return neutral(await upstream.request("resources/read", {"uri": uri}, uri))

    async def subscribe_resource(self, ctx: Ctx, server: ServerName, uri: str) -> Json:
        """Be told, as a notification, whenever a resource changes."""
        caller = await self._counter.caller(ctx)
        upstream = await caller.upstream(server)
        await upstream.listening.subscribe(await upstream.connect(), uri)
        return {"success": True, "message": f"Changes to {uri} come as notifications."}

    async def unsubscribe_resource(self, ctx: Ctx, server: ServerName, uri: str) -> Json:
        """Be told no longer when a resource changes."""
        caller = await self._counter.caller(ctx)
        upstream = await caller.upstream(server)
        await upstream.listening.unsubscribe(await upstream.connect(), uri)
        return {"success": True, "message": f"Changes to {uri} are not told any more."}

    async def list_prompts(self, ctx: Ctx, server: ServerFilter = None) -> Json:
        """List the prompts of all servers, or of one."""
        caller = await self._counter.caller(ctx)
        return await _gathered(caller, server, "prompts", lambda upstream: upstream.items(Kind.PROMPTS))

    async def get_prompt(
        self,
        ctx: Ctx,
        server: ServerName,
        name: Annotated[str, Field(description="The prompt's name")],
        arguments: dict[str, str] | None = None,
    ) -> Json:
        """Get a prompt of a server, filled in."""
        caller = await self._counter.caller(ctx)
        params: dict[str, Any] = {"name": name, **({"arguments": arguments} if arguments else {})}
        upstream = await caller.upstream(server)
        return neutral(await upstream.request("prompts/get", params, name))


async def _gathered(
    caller: Caller, server: str | None, word: str, of: Callable[[Upstream], Awaitable[list[Json]]]
) -> Json:
    """Return what all servers have, each with its server; those that are not there are named with the reason."""
    found: list[Json] = []
    missing: list[Json] = []
    for upstream in await caller.upstreams(server):
        try:
            found += [{"server": upstream.name, **item} for item in await of(upstream)]
        except (CoatcheckError, MCPError) as error:
            if server is not None:
                raise
            missing.append({"server": upstream.name, "error": str(error)})
    return {word: found, **({"unavailable": missing} if missing else {})}


def _filter(pattern: str | None) -> Callable[[Any], bool]:
    if pattern is None:
        return lambda tool: True
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ToolRefusal(INVALID_ARGUMENT, f"{pattern!r} is no regular expression: {error}.") from error
    return lambda tool: bool(compiled.search(tool["name"]) or compiled.search(tool.get("description") or ""))
