"""Messages as a hostile client would send them: valid ones, bent in one or many places, from a seed."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any, cast

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from coatcheck.dialects.v2026 import EXTENSION, VERSION
from tests.fuzz.values import Raw, Twice, copied, hostile, hostile_text, write

PATH = "/mcp"
HOST = b"127.0.0.1:8000"
LEGACY = "2025-11-25"
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}
ANSWER: dict[str, Any] = {"action": "accept", "content": {"number": 7}}
Headers = tuple[tuple[bytes, bytes], ...]


@cache
def mentions(task_id: str, encoding: str = "utf-8") -> re.Pattern[bytes]:
    """Return what finds an id in JSON. Where it follows `\\u200`, its first letter is the end of that escape."""
    backslash, mark, any_letter = "\\".encode(encoding), "\\u".encode(encoding), b"." * len("x".encode(encoding))
    escapes = (re.escape(backslash), *(re.escape(mark) + any_letter * count for count in range(4)))
    before = b"".join(b"(?<!" + escape + b")" for escape in escapes)
    return re.compile(before + re.escape(task_id.encode(encoding)), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Message:
    """One HTTP request, as it is handed to the application or written to a socket."""

    verb: str
    path: str
    headers: Headers
    chunks: tuple[bytes, ...]
    is_cut: bool = False
    """The client goes before it has sent everything."""

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def method(self) -> bytes:
        return dict(self.headers).get(b"mcp-method", b"")

    def names(self, task_id: str) -> bool:
        body = self.body.replace(b"\0", b"")  # it may be in UTF-16, which is JSON as well
        return mentions(task_id).search(body) is not None

    def __str__(self) -> str:
        body = self.body if len(self.body) < 3000 else self.body[:1500] + b" ... " + self.body[-1000:]
        return f"{self.verb} {self.path} cut={self.is_cut} {[*self.headers]!r:.2000} {body!r}"


@dataclass
class Targets:
    """The ids a client may come to know, or guess."""

    open: list[str] = field(default_factory=list[str])
    """Its own, with questions."""
    ended: list[str] = field(default_factory=list[str])
    expired: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    guessed: list[str] = field(default_factory=list[str])
    """What is nearly known: never said but with a mistake."""
    made: list[str] = field(default_factory=list[str])
    """Its own, by its own calls."""
    sessions: list[str] = field(default_factory=list[str])
    states: list[str] = field(default_factory=list[str])
    """What to send back when a call is repeated with answers."""
    keys: list[str] = field(default_factory=lambda: ["a", "b"])
    tools: tuple[str, ...] = ("take", "ask", "must", "plain", "named")


def envelope() -> dict[str, Any]:
    return {
        PROTOCOL_VERSION_META_KEY: VERSION,
        CLIENT_CAPABILITIES_META_KEY: CAPABILITIES,
        CLIENT_INFO_META_KEY: {"name": "fuzz", "version": "1"},
    }


def request(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": envelope()}}


def headers_for(body: Any, token: str | None = None, version: str | None = VERSION) -> Headers:
    """Return the headers that fit a body, as far as there are any that do."""
    found = [(b"host", HOST), (b"content-type", b"application/json")]
    found.append((b"accept", b"application/json, text/event-stream"))
    if version is not None:
        found.append((b"mcp-protocol-version", version.encode()))
    method, name = _named(body)
    if method is not None:
        found.append((b"mcp-method", _header(method)))
    if name is not None:
        found.append((b"mcp-name", _header(name)))
    if token is not None:
        found.append((b"authorization", b"Bearer " + token.encode()))
    return tuple(found)


def _named(body: Any) -> tuple[str | None, str | None]:
    if not isinstance(body, dict):
        return None, None
    given = cast("dict[str, Any]", body)
    params: Any = given.get("params")
    inner = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    return _text(given.get("method")), _text(inner.get("taskId", inner.get("name")))


def _text(value: Any) -> str | None:
    value = value.second if isinstance(value, Twice) else value
    return value if isinstance(value, str) and not isinstance(value, Raw) else None


def _header(value: str) -> bytes:
    """Write as the SDK does: what does not fit a header as it is goes in base64."""
    if value.isascii() and value.isprintable() and value == value.strip() and len(value) < 8_000:
        return value.encode()
    return b"=?base64?" + base64.b64encode(value.encode("utf-8", "replace"))[:8_000] + b"?="


def message(body: Any, token: str | None = None) -> Message:
    """Return a well-formed request."""
    return Message("POST", PATH, headers_for(body, token), (write(body).encode("utf-8", "surrogateescape"),))


class Fuzzer:
    """A stream of messages; the same seed and targets give the same stream."""

    def __init__(self, seed: int, targets: Targets, tokens: Sequence[str | None] = (None,)) -> None:
        self.chance = Random(seed)
        self.targets, self._tokens = targets, tokens
        self._number = 0

    def message(self) -> Message:
        kind = self.chance.random()
        if kind < 0.10:
            made = self._fitting(self.valid())
        elif kind < 0.62:
            made = self._fitting(self.bent(self.valid()))
        elif kind < 0.76:
            made = self._with_bent_headers(self._fitting(self.valid()))
        elif kind < 0.88:
            made = self._with_bent_bytes(self._fitting(self.valid()))
        elif kind < 0.92:
            made = self._with_bent_headers(self._with_bent_bytes(self._fitting(self.bent(self.valid()))))
        elif kind < 0.95:
            made = replace(self._fitting(self.valid()), chunks=(self._noise(),))
        elif kind < 0.97:
            made = self._elsewhere(self._fitting(self.valid()))
        else:
            made = self._legacy()
        return self._delivered(made)

    def poll(self) -> Message:
        """Return a `tasks/get`, bent less often than the others, and never cut short."""
        return self._asked(request("tasks/get", self._id(), taskId=self._task_id()))

    def call(self) -> Message:
        """Return a `tools/call`, likewise."""
        return self._asked(self._call(self._id()))

    def _asked(self, body: Any) -> Message:
        if self.chance.random() < 0.1:
            body["params"]["_meta"]["progressToken"] = hostile(self.chance)
        kind = self.chance.random()
        if kind < 0.6:
            return self._fitting(self.bent(body))
        if kind < 0.8:
            return self._with_bent_headers(self._fitting(body))
        return self._with_bent_bytes(self._fitting(self.bent(body) if kind < 0.9 else body))

    # Bodies

    def valid(self) -> Any:
        """Return a request that would be answered, if its task exists and its sender may see it."""
        chance, number = self.chance, self._id()
        match chance.choices(range(8), (30, 20, 20, 14, 8, 3, 3, 2))[0]:
            case 0:
                return request("tasks/get", number, taskId=self._task_id())
            case 1:
                keys = chance.sample([*self.targets.keys, "c", hostile_text(chance)], chance.choice((1, 1, 2)))
                answers = {key: ANSWER if chance.random() < 0.6 else hostile(chance) for key in keys}
                return request("tasks/update", number, taskId=self._task_id(), inputResponses=answers)
            case 2:
                return request("tasks/cancel", number, taskId=self._task_id())
            case 3:
                return self._call(number)
            case 4:
                ids = [self._task_id() for _ in range(chance.choice((0, 1, 2, 5)))]
                return request("subscriptions/listen", number, notifications={"taskIds": ids})
            case 5:
                return request("tools/list", number)
            case 6:
                return request("server/discover", number)
            case _:
                method = chance.choice(("tasks/list", "tasks/result", "ping", "resources/read", hostile_text(chance)))
                return request(method, number, taskId=self._task_id())

    def _call(self, number: Any) -> Any:
        chance, more = self.chance, dict[str, Any]()
        value = "x" if chance.random() < 0.5 else hostile(chance)
        if chance.random() < 0.3:
            answers = {key: ANSWER if chance.random() < 0.7 else hostile(chance) for key in self.targets.keys[-2:]}
            more = {"inputResponses": answers, "requestState": chance.choice([*self.targets.states, "x"])}
        body = request("tools/call", number, name=chance.choice(self.targets.tools), arguments={"value": value}, **more)
        if chance.random() < 0.2:
            body["params"]["_meta"]["progressToken"] = number
            body["params"]["task"] = {"ttl": 1000}
        return body

    def bent(self, body: Any) -> Any:
        body = copied(body)
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            body = self._bend(body)
        return [body, body] if self.chance.random() < 0.01 else body

    def _bend(self, body: Any) -> Any:
        """Change one place of a request, however deep."""
        spots = _spots(body)
        if not spots:
            return hostile(self.chance)
        chance = self.chance
        holder: Any
        holder, key = chance.choice(spots)
        match chance.randrange(8):
            case 0:
                del holder[key]
            case 1:
                holder[key] = [holder[key]]
            case 2:
                holder[key] = {"a": holder[key]}
            case 3 if isinstance(holder, dict):
                holder[key] = Twice(hostile(chance), holder[key])
            case 4 if isinstance(holder, dict):
                holder[hostile_text(chance)] = hostile(chance)
            case 5 if isinstance(holder, dict):
                holder[hostile_text(chance)] = cast("Any", holder).pop(key)
            case _:
                holder[key] = hostile(chance)
        return body

    def _id(self) -> Any:
        self._number += 1
        return self._number if self.chance.random() < 0.95 else f"n{self._number}"

    def _task_id(self) -> str:
        chance, targets = self.chance, self.targets
        pools = (targets.open, targets.ended, targets.foreign, targets.made, targets.expired, targets.guessed)
        pool = chance.choices(pools, (36, 15, 25, 15, 4, 5))[0] or targets.ended
        known = chance.choice(pool)
        if pool is not targets.guessed and chance.random() < 0.9:
            return known
        wrong = self._misspelt(known)
        return wrong if wrong != known else "?"

    def _misspelt(self, known: str) -> str:
        at = self.chance.randrange(len(known))
        return self.chance.choice(
            (
                known[:at] + self.chance.choice("abcXYZ019-_") + known[at + 1 :],
                known[:at],
                known[at:],
                known + self.chance.choice(("\0", " ", "\n", "%00", "x", "'", "\ufe0e")),
                " " + known,
                known.swapcase(),
                known[:at] + "\u200d" + known[at:],
                "".join(chr(ord(letter) + 0xFEE0) if letter.isalnum() else letter for letter in known),
                known * 200,
                hostile_text(self.chance) or "?",
            )
        )

    # Headers, bytes and delivery

    def _fitting(self, body: Any) -> Message:
        text = write(body).encode("utf-8", "surrogateescape")
        return Message("POST", PATH, headers_for(body, self.chance.choice(self._tokens)), (text,))

    def _with_bent_headers(self, fitting: Message) -> Message:
        found = list(fitting.headers)
        chance = self.chance
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(found))
            name, value = found[at]
            match chance.randrange(7):
                case 0 if len(found) > 1:
                    del found[at]
                case 1:
                    found.append((name, value))
                case 2:
                    found.append((name, self._header_value(value)))
                case 3:
                    found.insert(0, (name, self._header_value(value)))
                case _:
                    found[at] = (name, self._header_value(value))
        return replace(fitting, headers=tuple(found))

    def _header_value(self, value: bytes) -> bytes:
        at = self.chance.randrange(len(value) + 1)
        return self.chance.choice(
            (
                b"",
                value + b",",
                value.upper(),
                value[:at],
                value[:at] + b"\xff\xfe" + value[at:],
                b"=?base64?" + base64.b64encode(value) + b"?=",
                b"=?base64?" + base64.b64encode(value)[:at] + b"?=",
                b"=?utf-8?b?" + base64.b64encode(value) + b"?=",
                b"*/*",
                b"text/event-stream;x=application/json",
                b"application/json;q=0",
                b"text/html",
                b"2025-11-25",
                b"1900-01-01",
                b"evil.example",
                b"tasks/get",
                b"tools/call",
                value + b"; charset=utf-16",
                b"x" * 5000,
            )
        )

    def _with_bent_bytes(self, fitting: Message) -> Message:
        body = bytearray(fitting.body)
        chance = self.chance
        for _ in range(chance.choice((1, 1, 2, 8))):
            at = chance.randrange(len(body) + 1)
            match chance.randrange(7):
                case 0:
                    body[at : at + 1] = bytes([chance.randrange(256)])
                case 1:
                    body[at:at] = bytes([chance.randrange(256)])
                case 2:
                    del body[at : at + chance.choice((1, 2, 20))]
                case 3:
                    body[at:at] = body[: chance.choice((1, 5, 50))]
                case 4:
                    body[at:at] = chance.choice(
                        (b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xef\xbb\xbf", b"\0", b"}", b'"')
                    )
                case 5:
                    body += chance.choice((b" ", b"\n" + bytes(body), b"]", b"\0", b"{}"))
                case _:
                    del body[at:]
        if chance.random() < 0.02:
            body = bytearray(body.decode("utf-8", "replace").encode(chance.choice(("utf-16", "utf-32", "utf-16-le"))))
        return replace(fitting, chunks=(bytes(body),))

    def _noise(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.02:
            return b'{"a":"' + b"x" * (4 * 1024 * 1024) + b'"}'
        return chance.choice(
            (
                b"",
                b"null",
                b"[]",
                b'""',
                b"0",
                b"{}",
                b"[{}]",
                b"\xef\xbb\xbf{}",
                chance.randbytes(chance.randrange(1, 200)),
                b"[" * chance.choice((10, 1000, 100_000)),
                b'{"a":' * chance.choice((10, 1000, 50_000)),
                b"9" * chance.choice((100, 4_400, 60_000)),
                write(hostile(chance)).encode("utf-8", "surrogateescape"),
                write([request("tasks/get", 1, taskId=self._task_id())] * 3).encode(),
                write({"jsonrpc": "2.0", "id": 1, "result": {}}).encode(),
                write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).encode(),
                write({"jsonrpc": "2.0", "method": "tasks/cancel", "params": {"taskId": self._task_id()}}).encode(),
            )
        )

    def _elsewhere(self, fitting: Message) -> Message:
        verb = self.chance.choice(("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "POST", "TRACE"))
        path = self.chance.choice(
            (PATH, PATH, PATH + "/", "/", "//mcp", "/mcp/../mcp", "/MCP", "/mcp%2f", "/.well-known")
        )
        return replace(fitting, verb=verb, path=path)

    def _legacy(self) -> Message:
        """Return what a client of the older generation might send, in or out of a session."""
        chance, number = self.chance, self._id()
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}
        body = chance.choice(
            (
                {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": hello},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": number, "method": "tools/list"},
                {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "take", "arguments": {}}},
                {"jsonrpc": "2.0", "id": number, "method": "tasks/get", "params": {"taskId": self._task_id()}},
                {"jsonrpc": "2.0", "id": number, "method": "tasks/cancel", "params": {"taskId": self._task_id()}},
                {"jsonrpc": "2.0", "id": number, "method": "subscriptions/listen", "params": {"notifications": {}}},
            )
        )
        bent = self.bent(body) if chance.random() < 0.6 else body
        version = chance.choice((LEGACY, "2025-06-18", None))
        headers = headers_for(bent, chance.choice(self._tokens), version)
        if self.targets.sessions and chance.random() < 0.7:
            headers = (*headers, (b"mcp-session-id", chance.choice(self.targets.sessions).encode()))
        verb = chance.choices(("POST", "DELETE"), (9, 1))[0]
        return Message(verb, PATH, headers, (write(bent).encode("utf-8", "surrogateescape"),))

    def _delivered(self, whole: Message) -> Message:
        """Send some in pieces, and some not to the end."""
        chance, body = self.chance, whole.body
        if chance.random() < 0.9 or len(body) < 2:
            return whole
        cuts = sorted(chance.randrange(len(body)) for _ in range(chance.choice((1, 1, 3))))
        chunks = tuple(body[start:end] for start, end in zip((0, *cuts), (*cuts, len(body)), strict=True))
        is_cut = chance.random() < 0.2
        return replace(whole, chunks=chunks[:-1] if is_cut else chunks, is_cut=is_cut)


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in a request that can be changed."""
    found: list[tuple[Any, Any]] = []
    members: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        members = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list) and len(cast("list[Any]", value)) < 100:
        members = list(enumerate(cast("list[Any]", value)))
    for key, item in members:
        found.append((cast("Any", value), key))
        found += _spots(item)
    return found
