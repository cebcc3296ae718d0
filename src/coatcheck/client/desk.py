"""Behind the client: calls are handed in here, written down, and connected to what is heard of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakSet

from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import HEADER_MISMATCH

from coatcheck.client.channel import itself
from coatcheck.client.connection import Connection, ConnectionLost
from coatcheck.client.generations import Call, Started, generation
from coatcheck.client.handle import Read, TaskHandle
from coatcheck.client.hearing import Hearing
from coatcheck.client.keeping import Keeping
from coatcheck.client.ledger import Entry, Ledger, now
from coatcheck.client.link import Link
from coatcheck.client.local import LocalCall
from coatcheck.client.news import News
from coatcheck.client.push import Push
from coatcheck.client.questions import Questions
from coatcheck.client.refusals import of_call
from coatcheck.client.remote import RemoteTask, Source
from coatcheck.client.tools import ToolInfo, list_tools
from coatcheck.client.wire import Json
from coatcheck.dialects.seen import Question, Snapshot
from coatcheck.errors import CannotConnect, CoatcheckError, Interrupted, NotAuthorized, UnknownTool
from coatcheck.liveness import name_worker
from coatcheck.task import Status


class Desk:
    def __init__(
        self,
        make: Callable[[Hearing], Connection],
        link: Callable[[Callable[[], Connection]], Link],
        *,
        push: bool,
        passes_on: bool = False,
    ) -> None:
        """`passes_on`: whether all is left to the server, also what to say of a tool that it does not list."""
        self._passes_on = passes_on
        self.holder = name_worker()
        self.ledger: Ledger | None = None
        self.target: Mapping[str, Any] = {}
        self._news = News()
        self.hearing = Hearing(self._news, lambda: self.link.connection)
        self.link = link(lambda: make(self.hearing))
        self._push = Push(self.link, self._news) if push else None
        if self._push:
            self.hearing.acknowledged = self._push.acknowledged
        self.hearing.tools_changed = self._forget_tools
        self._tools: dict[str, ToolInfo] | None = None
        self._handles: WeakSet[TaskHandle[Any]] = WeakSet()
        self._calling: set[asyncio.Task[Started]] = set()

    async def close(self) -> None:
        for handle in list(self._handles):
            await handle.close()
        if self._push:
            await self._push.close()
        for calling in self._calling:
            calling.cancel()
        await asyncio.gather(*self._calling, return_exceptions=True)
        await self.link.close()
        if self.ledger:
            self.ledger.release_all(self.holder)
            self.ledger.close()

    async def tools(self) -> dict[str, ToolInfo]:
        if self._tools is None:
            self._tools = await self.link.run(list_tools)
        return self._tools

    async def start(self, call: Call, read: Read[Any]) -> TaskHandle[Any]:
        """Hand in a call. It is in the ledger before it is sent, if it may become a task."""
        connection = await self.link.run(itself)
        info = await self._known(call.tool)
        if not _may_be_task(connection, info):
            keeping = Keeping(None, call.key)
            return self._handle(call.tool, self._local(call, keeping), keeping, read)
        keeping = Keeping(self.ledger, call.key)
        keeping.begin(self._entry(call))
        try:
            started = await self._send(call, keeping)
        except NotAuthorized:
            keeping.delivered()
            raise
        except (CannotConnect, asyncio.CancelledError):  # perhaps it has been handed in
            keeping.released()
            raise
        except Exception:  # it was refused
            keeping.delivered()
            raise
        return self._started(call, started, keeping, read)

    def attach(self, snapshot: Snapshot, entry: Entry | None, read: Read[Any]) -> TaskHandle[Any]:
        """Return a handle for a task that was made earlier, here or elsewhere."""
        keeping = Keeping(self.ledger, entry.key) if entry else Keeping(None, "")
        source = self._remote(snapshot, keeping, is_known=False)
        return self._handle(entry.tool if entry else None, source, keeping, read)

    async def resume(self, entry: Entry, read: Read[Any]) -> TaskHandle[Any]:
        """Return a handle for a call that a program left behind."""
        if entry.task_id:
            return self.attach(Snapshot(id=entry.task_id, status=Status.WORKING), entry, read)
        keeping = Keeping(self.ledger, entry.key)
        call = Call(tool=entry.tool, arguments=entry.arguments, key=entry.key)
        try:
            return self._started(call, await self._send_again(call, keeping), keeping, read)
        except CannotConnect:
            raise
        except CoatcheckError as error:  # which is for whoever asks for the result
            source = LocalCall(entry.key, _refused(error), lambda task: self._remote(task, keeping))
            return self._handle(entry.tool, source, keeping, read)

    async def repeat(self, call: Call, read: Read[Any]) -> TaskHandle[Any]:
        """Hand in a call that may have been handed in before.

        Raises:
            Interrupted: The server cannot tell repeats.
        """
        keeping = Keeping(None, call.key)
        return self._started(call, await self._send_again(call, keeping), keeping, read)

    async def _send_again(self, call: Call, keeping: Keeping) -> Started:
        """Send a call that may have been sent before, if the server can tell.

        Raises:
            Interrupted: It cannot.
        """
        connection = await self.link.run(itself)
        if not connection.takes_keys or connection.keys_end_with_session:
            raise Interrupted(call.tool, "the program that called it ended before it was answered")
        return await self._send(call, keeping)

    async def _known(self, tool: str) -> ToolInfo:
        """Return what the server says of a tool.

        Raises:
            UnknownTool: It is not in its list, not even in a new one. What servers make of such calls varies.
        """
        if tool not in await self.tools():
            self._forget_tools()
        tools = await self.tools()
        if tool in tools:
            return tools[tool]
        if self._passes_on:
            return ToolInfo(name=tool, task_support="unknown")
        raise UnknownTool(tool, list(tools))

    async def _send(self, call: Call, keeping: Keeping, *, has_listed: bool = False) -> Started:
        """Send a call: again, if that does no harm or it cannot have arrived."""
        info = await self._known(call.tool)
        # What was answered before a call became a task is not asked again if the call is repeated.
        questions = Questions(partial(self._put, call.key), keeping, lambda: self.link.losses)

        sent_on: Connection | None = None

        async def send(connection: Connection) -> Started:
            nonlocal sent_on
            if sent_on not in (None, connection) and connection.keys_end_with_session:
                raise Interrupted(call.tool, "the session it was called in is gone")
            try:
                return await generation(connection).start(call, info, questions.ask)
            except ConnectionLost as error:
                sent_on = connection if error.was_sent else sent_on
                raise

        connection = await self.link.run(itself)
        is_repeatable = connection.takes_keys or (info.is_idempotent and not self._passes_on)
        try:
            return await self.link.run(send, is_repeatable=is_repeatable, is_urgent=self._passes_on)
        except ConnectionLost as error:
            raise Interrupted(call.tool, str(error)) from error
        except MCPError as error:
            if error.code == HEADER_MISMATCH and not has_listed:  # the list of tools has changed meanwhile
                self._forget_tools()
                return await self._send(call, keeping, has_listed=True)
            raise of_call(error, call.tool) from error
        finally:
            await questions.close()

    def _started(self, call: Call, started: Started, keeping: Keeping, read: Read[Any]) -> TaskHandle[Any]:
        if isinstance(started, Snapshot):
            keeping.became(started, self.link.connection.version if self.link.connection else "")
            source: RemoteTask | LocalCall = self._remote(started, keeping)
        else:
            source = LocalCall.ended(call.key, started)
        self.hearing.calls[call.key] = source
        return self._handle(call.tool, source, keeping, read)

    def _remote(self, snapshot: Snapshot, keeping: Keeping, *, is_known: bool = True) -> RemoteTask:
        questions = self.hearing.questions.get(snapshot.id)  # another handle of the same task may have asked
        if questions is None:
            questions = Questions(partial(self._put, snapshot.id), keeping, lambda: self.link.losses)
            self.hearing.questions[snapshot.id] = questions
        return RemoteTask(snapshot, self.link, self._news, self._push, questions, is_known=is_known)

    def _local(self, call: Call, keeping: Keeping) -> LocalCall:
        calling = asyncio.create_task(self._send(call, keeping))
        self._calling.add(calling)  # also if nobody keeps the handle
        calling.add_done_callback(self._calling.discard)
        source = LocalCall(call.key, calling, lambda task: self._remote(task, keeping))
        self.hearing.calls[call.key] = source
        return source

    def _handle(self, tool: str | None, source: Source, keeping: Keeping, read: Read[Any]) -> TaskHandle[Any]:
        handle = TaskHandle[Any](tool, source, keeping, read)
        self._handles.add(handle)
        return handle

    async def _put(self, name: str, question: Question) -> Json:
        connection = await self.link.run(itself)
        return await connection.put(question.method, dict(question.params), name, name)

    def _entry(self, call: Call) -> Entry:
        ttl = call.ttl.total_seconds() if call.ttl else None
        return Entry(
            key=call.key,
            target=self.target,
            tool=call.tool,
            arguments=call.arguments,
            started_at=now(),
            holder=self.holder,
            ttl=ttl,
        )

    def _forget_tools(self) -> None:
        self._tools = None


def _may_be_task(connection: Connection, info: ToolInfo) -> bool:
    return connection.has_tasks and info.task_support != "forbidden"


async def _refused(error: CoatcheckError) -> Started:
    raise error
