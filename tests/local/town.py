"""Servers in servers: a shop in a mall in a city, each with a middleware, and a lifespan, of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer

from coatcheck.server import TaskContext, TaskServer
from tests.local.stage import TASK, Name, text_of

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Town:
    def __init__(self, **options: Any) -> None:
        """`options` are those of the host, which is the mall."""
        self.seen: list[tuple[str, str]] = []
        """Which server's middleware saw what, by the name it had there."""
        self.lives: list[str] = []
        """When lifespans were entered and left."""
        self.shop, self.mall, self.city = self.made("shop"), self.made("mall", **options), self.made("city")
        self._stock()
        self.mall.mount(self.shop, "shop")
        self.city.mount(self.mall, "mall")

    def made(self, name: str, **options: Any) -> TaskServer:
        async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
            params: Any = ctx.params or {}
            if ctx.method in NAMED:
                self.seen.append((name, params[NAMED[ctx.method]]))
            return await call_next(ctx)

        @asynccontextmanager
        async def lifespan(_: MCPServer[Any]) -> AsyncGenerator[dict[str, str]]:
            self.lives.append(f"{name} opens")
            yield {"of": name}
            self.lives.append(f"{name} closes")

        return TaskServer(name, **{"store": "memory://", "lifespan": lifespan, "middleware": [note], **options})  # pyright: ignore[reportArgumentType]

    def _stock(self) -> None:
        shop = self.shop

        @shop.tool(task=True)
        async def where(ctx: Context, n: int = 0) -> str:
            return f"{ctx.mcp_server.name} {ctx.request_context.lifespan_context['of']}"

        @shop.tool(task=True)
        async def twice(ctx: Context) -> str:
            task = await shop.call_tool("where", {}, ctx, task_meta=TASK)
            return f"{task.latest.call.tool}: {text_of(await task)}"

        @shop.tool(task=True)
        async def ours(ctx: TaskContext) -> str:
            return ctx.task.call.tool

        @shop.tool(task=True)
        async def greet(ctx: Context) -> str:
            answer = await ctx.elicit("Who?", Name)
            return answer.data.name if answer.action == "accept" else answer.action

        @shop.tool(task=True)
        def in_thread(ctx: Context) -> str:
            return ctx.mcp_server.name

        @shop.tool()
        async def plain() -> str:
            return "plain"

        @shop.resource("notes://{name}", task=True)
        async def note(name: str, ctx: Context) -> str:
            return f"{name} {ctx.mcp_server.name} {ctx.request_context.lifespan_context['of']}"

        @shop.resource("notes:all", task=True)
        async def notes() -> str:
            return "all notes"

        @shop.prompt(task=True)
        async def ask(topic: str, ctx: Context) -> str:
            return f"{topic} {ctx.mcp_server.name} {ctx.request_context.lifespan_context['of']}"
