"""What a `TaskServer` is to your own code: its tools, resources and prompts, called or handed in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self, overload

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, GetPromptResult, InputRequiredResult
from pydantic import AnyUrl

from coatcheck.server.local.asker import AnyContext, unsent
from coatcheck.server.local.handle import LocalTask, TaskPage
from coatcheck.server.local.meta import TaskMeta
from coatcheck.server.tasks import Tasks

_PAGE = 50


class LocalServer(MCPServer[Any]):
    """An `MCPServer` whose calls by your own code may be tasks, if they say so with `task_meta`.

    Without it each is the SDK's own method: it runs here and now. With it the call goes through the server's
    middleware, and its task is on disk when the handle is returned. `context` is what a body was given: then the task
    is a child of the task it works for, or belongs to whoever sent the request that it serves.
    """

    tasks: Tasks
    _state: Any = None
    _unsent: Context[Any, Any] | None = None
    """That of all calls that nobody sent: it says the same to all of them."""

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[Any, Any] | None = None,
        *,
        task_meta: None = None,
    ) -> CallToolResult | InputRequiredResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: AnyContext | None = None,
        *,
        task_meta: TaskMeta,
    ) -> LocalTask[CallToolResult]: ...

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: AnyContext | None = None,
        *,
        task_meta: TaskMeta | None = None,
    ) -> CallToolResult | InputRequiredResult | LocalTask[CallToolResult]:
        """Call a tool, or make a task of the call. `LocalCalls.call_tool` says what may be refused."""
        if task_meta is None:
            return await super().call_tool(name, arguments or {}, self._context(context))
        return await self.tasks.local.call_tool(name, arguments or {}, task_meta, context)

    @overload
    async def read_resource(
        self, uri: AnyUrl | str, context: Context[Any, Any] | None = None, *, task_meta: None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult: ...

    @overload
    async def read_resource(
        self, uri: AnyUrl | str, context: AnyContext | None = None, *, task_meta: TaskMeta
    ) -> LocalTask[list[ReadResourceContents]]: ...

    async def read_resource(
        self, uri: AnyUrl | str, context: AnyContext | None = None, *, task_meta: TaskMeta | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult | LocalTask[list[ReadResourceContents]]:
        """Read a resource, or make a task of reading it."""
        if task_meta is None:
            return await super().read_resource(uri, self._context(context))
        return await self.tasks.local.read_resource(str(uri), task_meta, context)

    @overload
    async def render_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        context: Context[Any, Any] | None = None,
        *,
        task_meta: None = None,
    ) -> GetPromptResult | InputRequiredResult: ...

    @overload
    async def render_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        context: AnyContext | None = None,
        *,
        task_meta: TaskMeta,
    ) -> LocalTask[GetPromptResult]: ...

    async def render_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        context: AnyContext | None = None,
        *,
        task_meta: TaskMeta | None = None,
    ) -> GetPromptResult | InputRequiredResult | LocalTask[GetPromptResult]:
        """Render a prompt, as `get_prompt` does, or make a task of rendering it."""
        if task_meta is None:
            return await self.get_prompt(name, dict(arguments or {}), self._context(context))
        return await self.tasks.local.render_prompt(name, arguments or {}, task_meta, context)

    async def task(self, task_id: str, owner: str | None = None) -> LocalTask[Any]:
        """Return a handle of a task that is there already.

        Raises:
            TaskNotFound: There is no such task of this owner.
        """
        return await self.tasks.local.task(task_id, owner)

    async def list_tasks(
        self, owner: str | None = None, *, cursor: str | None = None, page_size: int = _PAGE
    ) -> TaskPage:
        """Return an owner's tasks, newest first; None: those of nobody in particular.

        Raises:
            InvalidArgument: The cursor is not of this listing, or the page is too large.
        """
        return await self.tasks.local.list(owner, cursor, page_size)

    def _context(self, given: AnyContext | None) -> Context[Any, Any]:
        """Return the SDK's context of a call that runs here and now; of one that nobody sent, one that tells nobody."""
        if isinstance(given, Context):
            return given
        state: Any = self.tasks.local.state
        if state is not self._state or self._unsent is None:
            request = unsent({} if state is None else state, "", {})
            self._state = state
            self._unsent = Context(request_context=request, mcp_server=self, subscriptions=self.tasks.bus)
        return self._unsent

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[Self]:
        """Run tasks meanwhile, without serving anyone: for scripts, tests, and whatever serves in another way."""
        async with self.tasks.lifespan(self):
            yield self
