"""A server that does nothing, to know what the generator itself can do."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from benchmarks.load.session import TASKS, Address


class Stub(asyncio.Protocol):
    """Answers every request at once: with a new task, or with a finished one."""

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, blank, body = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        length = int(head.rpartition(b"Content-Length: ")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._buffer = body[length:]
        request = json.loads(body[:length])
        answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": _result(request, body)}).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
        assert self._transport
        self._transport.write(head + answer)


def _result(request: dict[str, Any], body: bytes) -> dict[str, Any]:
    result: dict[str, Any] = {"resultType": "complete", "content": [{"type": "text", "text": "0"}]}
    if request["method"] == "tasks/get":
        task = request["params"]["taskId"]
        return {**result, "taskId": task, "status": task}
    if request["method"] == "tools/call" and TASKS.encode() in body and request["params"]["name"] in ("nap", "noop"):
        # A task's id is the status it has for ever: one called `working` never ends, for `poll` and `hold`.
        status = "working" if request["params"]["name"] == "nap" else "completed"
        return {"resultType": "task", "taskId": status, "status": "working"}
    return result


async def serve(address: Address) -> None:
    """Serve until the process ends."""
    server = await asyncio.get_running_loop().create_server(Stub, address.host, address.port)
    await server.serve_forever()
