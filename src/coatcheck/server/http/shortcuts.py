"""The two requests that are answered without the SDK where nothing about them is unusual: polls and plain hand-ins.

Each gives None for all it does not understand completely; then the SDK has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import msgspec
from mcp.server.connection import Connection
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.methods import validate_client_request
from msgspec import UNSET, UnsetType
from pydantic import ValidationError

from coatcheck.dialects.v2026 import EXTENSION, VERSION, WireTask, write_created, write_task
from coatcheck.dialects.words import IDEMPOTENCY_KEY
from coatcheck.errors import CoatcheckError
from coatcheck.payload import Payload
from coatcheck.server.calls.record import write_request
from coatcheck.server.params import TaskParams
from coatcheck.server.tasks import Tasks
from coatcheck.task import NOTHING

_MOST_REMEMBERED = 1024
_MOST_BYTES = 4096
_VARYING = (IDEMPOTENCY_KEY.encode(), b"progressToken")
"""What makes the `_meta` of each request another."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON-RPC request whose method is known to be one of ours."""

    id: int | str
    jsonrpc: str
    method: str
    params: msgspec.Raw


class Shortcut(Protocol):
    def knows(self, name: bytes) -> bool:
        """Whether it is worth a look, by what the Mcp-Name header says."""
        ...

    async def answer(self, name: bytes, params: msgspec.Raw, meta: dict[str, Any]) -> Any:
        """Return the result, with `meta` in it; None: let the SDK answer."""
        ...


class Clients:
    """What the SDK makes of the `_meta` of requests. A client's is always the same, so it is looked at once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Payload | None] = {}

    def request_of(self, meta: msgspec.Raw) -> Payload | None:
        """Return what a task remembers of a request with this `_meta`, and nothing else to remember.

        None: the `_meta` is wrong, of another version, or has no tasks among its capabilities.
        """
        raw = bytes(meta)
        if len(raw) > _MOST_BYTES or any(name in raw for name in _VARYING):
            return None
        if raw not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = msgspec.json.decode(raw)
            self._known[raw] = write_request(VERSION, found) if _accepts_tasks(found) else None
        return self._known[raw]


def _accepts_tasks(found: Any) -> bool:
    meta = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if meta.get(PROTOCOL_VERSION_META_KEY) != VERSION or IDEMPOTENCY_KEY in meta:  # however it was spelt
        return False
    try:
        validate_client_request("tools/list", VERSION, {"_meta": meta})
        TaskParams.model_validate({"taskId": "any", "_meta": meta}, by_name=False)
    except ValidationError:
        return False
    read = Connection.from_envelope(VERSION, None, meta.get(CLIENT_CAPABILITIES_META_KEY)).client_capabilities
    return bool(read and read.extensions and EXTENSION in read.extensions)


class _PollParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task_id: str = msgspec.field(name="taskId")
    meta: msgspec.Raw = msgspec.field(name="_meta")


class Polls:
    """`tasks/get`."""

    def __init__(self, tasks: Tasks, clients: Clients) -> None:
        self._tasks, self._clients = tasks, clients
        self._read = msgspec.json.Decoder(_PollParams).decode

    def knows(self, name: bytes) -> bool:
        return True

    async def answer(self, name: bytes, params: msgspec.Raw, meta: dict[str, Any]) -> WireTask | None:
        poll = self._read(params)
        if name != poll.task_id.encode() or self._clients.request_of(poll.meta) is None:
            return None
        return write_task(await self._tasks.poll(poll.task_id, owner=None), meta)


class _CallParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that brings nothing back from an earlier round of it."""

    name: str
    meta: msgspec.Raw = msgspec.field(name="_meta")
    arguments: msgspec.Raw | UnsetType = UNSET


class HandIns:
    """`tools/call` of a tool that takes nothing but arguments, by a client that accepts tasks."""

    def __init__(self, tasks: Tasks, clients: Clients) -> None:
        self._tasks, self._clients = tasks, clients
        self._read = msgspec.json.Decoder(_CallParams).decode
        self._read_arguments = msgspec.json.Decoder(dict[str, Any]).decode

    def knows(self, name: bytes) -> bool:
        return name.decode("latin-1") in self._tasks.simple_tools

    async def answer(self, name: bytes, params: msgspec.Raw, meta: dict[str, Any]) -> WireTask | None:
        call = self._read(params)
        tool = self._tasks.simple_tools.get(call.name)
        request = self._clients.request_of(call.meta)
        if tool is None or name != call.name.encode() or request is None:
            return None
        arguments = NOTHING if call.arguments is UNSET else Payload(bytes(call.arguments))
        if not _fits(tool.validate, self._read_arguments(arguments)):
            return None
        task = await self._tasks.submit(call.name, arguments, owner=None, meta=request)
        return write_created(task, meta)


def _fits(validate: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]) -> bool:
    try:
        validate(arguments)
    except Exception:  # the author's own validators may raise anything
        return False
    return True


REFUSALS = (CoatcheckError, msgspec.MsgspecError, ValueError, RecursionError)
"""What a shortcut may raise before anything is written. The SDK says it properly."""
