"""Clients of both generations over HTTP, byte for byte: what they send is what a test says, and what comes is kept."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import httpx2

from tests.server.wire import ABLE, headers, message

PATIENCE = 60
OLD, NEW = "2025-11-25", "2026-07-28"
ACCEPT = "application/json, text/event-stream"
ASKABLE: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
Json = dict[str, Any]
SESSION = "mcp-session-id"


@dataclass(frozen=True)
class Reply:
    """An answer, as far as a caller could learn from it: all but the date."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def message(self) -> Json:
        """Return the JSON-RPC answer; of a stream, the last message."""
        if dict(self.headers)["content-type"].startswith("text/event-stream"):
            return list(events(self.body.decode().splitlines()))[-1]
        return json.loads(self.body)

    @property
    def result(self) -> Json:
        found = self.message
        assert "result" in found, found
        return found["result"]

    @property
    def error(self) -> Json:
        """Return the error: of the protocol, or in the result of a tool."""
        found = self.message
        if "error" in found:
            return found["error"]
        assert found["result"]["isError"] is True, found
        return {"text": found["result"]["content"][0]["text"]}


def events(lines: Iterator[str] | list[str]) -> Iterator[Json]:
    for line in lines:
        if line.startswith("data:") and line[5:].strip():
            yield json.loads(line[5:])


class Caller(ABC):
    """One client. Requests all have the same id, so that their answers can be compared."""

    generation: ClassVar[str]

    def __init__(self, url: str, token: str | None = None, **more: str) -> None:
        self.url, self.token = url, token
        self.more = {**({"authorization": f"Bearer {token}"} if token else {}), **more}
        self.http = httpx2.Client(timeout=PATIENCE)

    def close(self) -> None:
        self.http.close()

    @abstractmethod
    def body(self, method: str, params: Mapping[str, Any]) -> Json: ...

    @abstractmethod
    def headers(self, body: Json) -> dict[str, str]: ...

    def post(self, body: Any, **replaced: str | None) -> Reply:
        """Post anything, with the headers a good client would send but for those replaced; None leaves one out."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        asked: Json = cast("Json", body) if isinstance(body, dict) else {"method": "?"}
        given = {**self.headers(asked), **self.more}
        given |= {name.replace("_", "-"): value for name, value in replaced.items() if value is not None}
        for name in [name.replace("_", "-") for name, value in replaced.items() if value is None]:
            given.pop(name, None)
        return _reply(self.http.post(self.url, content=sent, headers=given))

    def ask(self, method: str, /, **params: Any) -> Reply:
        return self.post(self.body(method, params))

    @abstractmethod
    def use(self, tool: str, /, **arguments: Any) -> Reply:
        """Call a tool, as a client without tasks does."""

    @abstractmethod
    def call(self, tool: str, /, **arguments: Any) -> Reply:
        """Call a tool as a task."""

    def hand_in(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool as a task; return the task's id."""
        created = self.call(tool, **arguments).result
        return created.get("task", created)["taskId"]

    def get(self, task_id: str) -> Json:
        """Return the caller's own task."""
        return self.ask("tasks/get", taskId=task_id).result

    def until(self, task_id: str, status: str) -> Json:
        """Return the caller's own task once it is in this status."""
        while (found := self.get(task_id))["status"] != status:
            assert found["status"] in ("working", "input_required"), found
        return found

    @contextmanager
    def stream(self, method: str, /, **params: Any) -> Generator[Iterator[Json]]:
        """Send a request whose answer is a stream, and read its messages one by one."""
        body = self.body(method, params)
        given = {**self.headers(body), **self.more}
        with self.http.stream("POST", self.url, json=body, headers=given) as response:
            assert response.status_code == 200, response.read()
            yield events(response.iter_lines())


class Modern(Caller):
    """One of 2026-07-28. There are no sessions."""

    generation = "2026-07-28"

    def body(self, method: str, params: Mapping[str, Any]) -> Json:
        return message(method, params, ABLE)

    def headers(self, body: Json) -> dict[str, str]:
        given = dict(headers(body))
        del given["host"]
        return given

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def use(self, tool: str, /, **arguments: Any) -> Reply:
        return self.post(message("tools/call", {"name": tool, "arguments": arguments}, {}))


class Older(Caller):
    """One of 2025-11-25, in a session of its own."""

    generation = "2025-11-25"

    def __init__(self, url: str, token: str | None = None, session: str | None = None, **more: str) -> None:
        super().__init__(url, token, **more)
        self.session = session or self._hello()

    def _hello(self) -> str:
        hello = {"protocolVersion": OLD, "capabilities": ASKABLE, "clientInfo": {"name": "test", "version": "1"}}
        begun = self.post(self.body("initialize", hello), mcp_protocol_version=None, mcp_session_id=None)
        self.session = dict(begun.headers)[SESSION]
        assert begun.result["protocolVersion"] == OLD
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return self.session

    def body(self, method: str, params: Mapping[str, Any]) -> Json:
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}

    def headers(self, body: Json) -> dict[str, str]:
        given = {"content-type": "application/json", "accept": ACCEPT, "mcp-protocol-version": OLD}
        return {**given, SESSION: getattr(self, "session", "")}

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        return self.ask("tools/call", name=tool, arguments=arguments, task={})

    def use(self, tool: str, /, **arguments: Any) -> Reply:
        return self.ask("tools/call", name=tool, arguments=arguments)


CALLERS: dict[str, type[Caller]] = {kind.generation: kind for kind in (Modern, Older)}


def _reply(response: httpx2.Response) -> Reply:
    kept = [(name.lower(), value) for name, value in response.headers.items() if name.lower() != "date"]
    return Reply(response.status_code, tuple(sorted(kept)), response.content)
