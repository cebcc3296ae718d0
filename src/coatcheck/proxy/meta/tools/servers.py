"""The tools for servers: add, remove, reconnect, list, and how one is doing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from coatcheck.client.wire import Json
from coatcheck.errors import CannotConnect
from coatcheck.proxy.config import server_entry
from coatcheck.proxy.meta.counter import Counter, Ctx
from coatcheck.proxy.meta.records import brief, working
from coatcheck.proxy.meta.refusals import NOT_ALLOWED, ToolRefusal
from coatcheck.proxy.upstreams.upstream import Upstream

ServerName = Annotated[str, Field(description="The server's name, as list_servers shows it")]


class ServerTools:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def add_server(
        self,
        ctx: Ctx,
        name: Annotated[str, Field(description="What to call it: letters, digits, dots, dashes, underscores")],
        url: Annotated[str | None, Field(description="Its streamable HTTP endpoint")] = None,
        headers: dict[str, str] | None = None,
        command: Annotated[str | None, Field(description="Or the command that runs it, over stdio")] = None,
        args: list[str] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
    ) -> Json:
        """Add a server, for all who use this proxy, and connect to it."""
        caller = await self._counter.caller(ctx)
        given = {"url": url, "headers": headers, "command": command, "args": args, "env": env, "cwd": cwd}
        entry = {word: value for word, value in given.items() if value is not None}
        if command is not None and not self._counter.settings.is_for_one:
            raise ToolRefusal(NOT_ALLOWED, "Callers of a shared proxy may not run commands on it; add a url.")
        added = server_entry(name, entry, expands=False)
        if name in self._counter.servers:
            await caller.guard.admit(name)
        self._counter.servers.add(added, keeps_terms=True)
        upstream = await caller.upstream(name)
        try:
            await upstream.connect()
        except CannotConnect as error:
            return {"success": True, "server": _described(upstream), "warning": str(error)}
        described = _described(upstream)
        return {"success": True, "server": described, "capabilities": upstream.capabilities}

    async def remove_server(self, ctx: Ctx, server: ServerName) -> Json:
        """Remove a server, for all who use this proxy. What it is doing for you is given up."""
        caller = await self._counter.caller(ctx)
        await caller.upstream(server)
        self._counter.servers.remove(server)
        return {"success": True, "message": f"Server {server} was removed."}

    async def reconnect_server(self, ctx: Ctx, server: ServerName) -> Json:
        """Leave the connection to a server and make a new one, at once."""
        caller = await self._counter.caller(ctx)
        upstream = await caller.upstream(server)
        try:
            await upstream.link.renew()
        except CannotConnect as error:
            raise upstream.unreachable(str(error)) from error
        return {"success": True, "server": _described(upstream)}

    async def list_servers(self, ctx: Ctx) -> Json:
        """List the servers, and how the connections to them are doing."""
        caller = await self._counter.caller(ctx)
        return {"servers": [_described(upstream) for upstream in await caller.upstreams()]}

    async def get_server_status(self, ctx: Ctx, server: ServerName) -> Json:
        """Tell how a server is doing: its connection, its tasks, and what it waits for you to answer."""
        caller = await self._counter.caller(ctx)
        upstream = await caller.upstream(server)
        found = await working(self._counter.tasking.running.engine, caller.owner, server)
        return {
            "server": _described(upstream),
            "capabilities": upstream.capabilities,
            "working_tasks": [brief(task, errand) for task, errand in found],
            "pending_elicitations": caller.elicitations(server),
            "pending_sampling_requests": caller.samplings(server),
        }


def _described(upstream: Upstream) -> Json:
    described: dict[str, Any] = {"name": upstream.name, **upstream.entry.describe(), **upstream.describe()}
    return described
