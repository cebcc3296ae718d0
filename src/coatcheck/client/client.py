"""`Client`: one call, any server, and no result is ever lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, Self, TypeVar, overload

import httpx2
import mcp_types as types
from mcp.client.session import ClientSession, ElicitationFnT, ListRootsFnT, LoggingFnT, SamplingFnT

from coatcheck.client.connection import Callbacks, Connection
from coatcheck.client.desk import Desk
from coatcheck.client.generations import Call, new_key
from coatcheck.client.handle import Read, TaskHandle
from coatcheck.client.ledger import Ledger
from coatcheck.client.link import Link
from coatcheck.client.results import ToolResult, convert, failure_of, read_result
from coatcheck.client.targets import Targetable, target_of
from coatcheck.client.tools import ToolInfo
from coatcheck.client.wire import Json
from coatcheck.dialects import v2025, v2026
from coatcheck.dialects.seen import Snapshot
from coatcheck.errors import CannotConnect, InvalidArgument
from coatcheck.payload import decode, encode
from coatcheck.policy import Duration, duration
from coatcheck.task import Status

T = TypeVar("T")
Mode = Literal["auto", "2026-07-28", "2025-11-25"]
_MODES = ("auto", v2026.VERSION, v2025.VERSION)


class Client:
    """A client for one server.

    Calls become tasks where the server has them, of either generation, and are plain calls elsewhere. Connections
    that break are made again; what is under way goes on.
    """

    def __init__(
        self,
        target: Targetable,
        *,
        elicitation_callback: ElicitationFnT | None = None,
        sampling_callback: SamplingFnT | None = None,
        list_roots_callback: ListRootsFnT | None = None,
        logging_callback: LoggingFnT | None = None,
        mode: Mode = "auto",
        headers: Mapping[str, str] | None = None,
        auth: str | httpx2.Auth | None = None,
        ledger: str | os.PathLike[str] | Literal[False] | None = None,
        push: bool = True,
        answers_later: bool = False,
        patience: Duration = 60.0,
        client_info: types.Implementation | None = None,
    ) -> None:
        """Nothing is connected before `async with`.

        Args:
            target: A URL, a command line, an entry of `mcpServers`, or a server object of this process.
            mode: Which generation of the protocol to speak; "auto" takes the newest the server has.
            auth: A bearer token, or anything httpx2 knows for authentication.
            ledger: The file that remembers what was not collected; None: one in the user's state folder; False: none.
            push: Whether to be told of changes, where the server can.
            answers_later: Whether tasks may ask what there is no callback for: with `TaskHandle.answer`, or whoever
                resumes them, to answer.
            patience: How many seconds to keep trying to reach a server that was there and is gone.

        Raises:
            InvalidArgument: Something of this cannot be used.
        """
        if mode not in _MODES:
            raise InvalidArgument(f"mode is one of {', '.join(_MODES)}, but it is {mode!r}.")
        self._target = target_of(target, headers, auth)
        self._ledger = ledger
        callbacks = Callbacks(
            elicitation_callback, sampling_callback, list_roots_callback, logging_callback, answers_later
        )
        make = partial(Connection, self._target, callbacks, client_info, mode)
        seconds = duration("patience", patience).total_seconds()
        self._desk = Desk(make, lambda make: Link(make, self._target.label, seconds), push=push)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            CannotConnect: There is no MCP server there, or it does not let us in.
            StoreError: The ledger cannot be used.
        """
        spec = self._target.spec
        if not isinstance(self._ledger, bool) and spec is not None:
            self._desk.ledger, self._desk.target = Ledger(self._ledger), spec
        try:
            await self._desk.link.open()
        except BaseException:
            await self._desk.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect. Tasks go on; what was not collected stays in the ledger."""
        await self._desk.close()

    @property
    def session(self) -> ClientSession:
        """The SDK's session of the present connection, for all that is not a tool call."""
        return self._connection.session

    @property
    def protocol_version(self) -> str:
        return self._connection.version

    @property
    def server_info(self) -> types.Implementation | None:
        return self.session.server_info

    @property
    def has_tasks(self) -> bool:
        """Whether the server says that it has tasks."""
        return self._connection.has_tasks

    async def tools(self) -> list[ToolInfo]:
        """Return what the server says of its tools."""
        return list((await self._desk.tools()).values())

    @overload
    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: None = None,
        ttl: Duration | None = None,
        timeout: float | None = None,
        on_change: Callable[[Snapshot], object] | None = None,
        cancel_on_abandon: bool = False,
        idempotency_key: str | None = None,
        raise_on_error: bool = True,
    ) -> ToolResult: ...

    @overload
    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        ttl: Duration | None = None,
        timeout: float | None = None,
        on_change: Callable[[Snapshot], object] | None = None,
        cancel_on_abandon: bool = False,
        idempotency_key: str | None = None,
    ) -> T: ...

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[Any] | None = None,
        ttl: Duration | None = None,
        timeout: float | None = None,
        on_change: Callable[[Snapshot], object] | None = None,
        cancel_on_abandon: bool = False,
        idempotency_key: str | None = None,
        raise_on_error: bool = True,
    ) -> Any:
        """Call a tool and return its result, however long that takes.

        Args:
            returns: A type to read the result as: a pydantic model, a dataclass, `int`, ...
            ttl: How long the server is to keep the task, where that can be asked for (2025-11-25).
            timeout: How many seconds to wait. The task goes on, and can be resumed.
            on_change: Told of every change that is seen: status, message, progress.
            cancel_on_abandon: Whether to cancel the task if this call is cancelled, or times out; a call that is no
                task is given up in any case.
            idempotency_key: What makes repeats of this call one, also from another program, if the server heeds it.
            raise_on_error: Whether a tool's own report of an error is raised, as ToolFailed, or returned.

        Raises:
            ToolFailed, TaskCancelled, TaskLost: There is no result, and there will be none.
            InputRequired: The tool asks something that no callback answers.
            Interrupted: The connection was lost, and this was no task.
            UnknownTool, InvalidArgument, ServerError: The server does not take the call.
            CannotConnect: The server is gone, and so is our patience.
        """
        handle = await self._start(tool, arguments, ttl, idempotency_key, self._reader(tool, returns, raise_on_error))
        handle.on_change = on_change
        try:
            return await handle.result(timeout)
        except (asyncio.CancelledError, TimeoutError) as error:
            if cancel_on_abandon or not handle.is_task:  # nobody could come back for it
                await asyncio.shield(asyncio.ensure_future(handle.cancel()))
            else:
                await handle.detach()
            if isinstance(error, TimeoutError):
                rest = f"it is task {handle.id}" if handle.is_task else "it was no task, and was given up"
                raise TimeoutError(f"{tool} has not ended after {timeout:g} seconds; {rest}") from None
            raise
        except CannotConnect:
            await handle.detach()
            raise

    @overload
    async def start(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        raise_on_error: bool = True,
    ) -> TaskHandle[ToolResult]: ...

    @overload
    async def start(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
    ) -> TaskHandle[T]: ...

    async def start(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[Any] | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        raise_on_error: bool = True,
    ) -> TaskHandle[Any]:
        """Hand in a call and return a handle for it. The arguments and errors are those of `call`."""
        return await self._start(tool, arguments, ttl, idempotency_key, self._reader(tool, returns, raise_on_error))

    def handle(self, task_id: str) -> TaskHandle[ToolResult]:
        """Return a handle for a task whose id is known."""
        ledger = self._desk.ledger
        entry = ledger.by_task(task_id) if ledger else None
        read = self._reader(entry.tool if entry else None)
        return self._desk.attach(Snapshot(id=task_id, status=Status.WORKING), entry, read)

    async def resume(self) -> list[TaskHandle[ToolResult]]:
        """Return handles for all calls of this server that programs left behind: those that crashed or let go.

        One that may or may not have been handed in is handed in again if the server can tell repeats; if not, its
        result is `Interrupted`.
        """
        ledger = self._desk.ledger
        entries = ledger.take(self._desk.holder, self._desk.target) if ledger else ()
        return [await self._desk.resume(entry, self._reader(entry.tool)) for entry in entries]

    @property
    def _connection(self) -> Connection:
        if connection := self._desk.link.connection:
            return connection
        raise InvalidArgument("The client is not connected; use it in `async with`.")

    async def _start(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None,
        ttl: Duration | None,
        key: str | None,
        read: Read[Any],
    ) -> TaskHandle[Any]:
        given: dict[str, Any] = decode(encode(dict(arguments or {})))
        lifetime = None if ttl is None else duration("ttl", ttl)
        return await self._desk.start(Call(tool=tool, arguments=given, key=key or new_key(), ttl=lifetime), read)

    def _reader(self, tool: str | None, returns: type[Any] | None = None, raises: bool = True) -> Read[Any]:
        """Return what makes of a tool's result what its caller wants."""

        async def read(raw: Json) -> Any:
            tools = await self._desk.tools()
            result = read_result(raw, tool or "", tools.get(tool or ""))
            if result.is_error and (raises or returns):
                raise failure_of(result)
            return result if returns is None else convert(result, tool or "", returns)

        return read
