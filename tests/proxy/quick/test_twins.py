"""Whichever way a call goes, its answer is the same."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY, SERVER_INFO_META_KEY

from tests.proxy.quick.callers import Answer, Caller, Headers
from tests.proxy.quick.conftest import LongWay, Meet, both_servers
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, Refusal, text

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

RESULTS: dict[str, Json] = {
    "text": text("a\u2028ü\x00😀"),
    "nothing": {"content": []},
    "an error": {"content": [{"type": "text", "text": "No"}], "isError": True},
    "no error": {"content": [], "isError": False},
    "structured": {"content": [], "structuredContent": {"a": [1, 2.5, None, {"b": "c"}], "": {}, "ü": True}},
    "numbers": {"content": [], "structuredContent": {"a": [2**53 + 1, -(2**63), 2**64, 10**40, 1e300, 0.1, 1.0, -0.0]}},
    "meta": {"content": [], "_meta": {"example.com/mark": {"deep": [1, None]}, "progressToken": "mine"}},
    "empty meta": {"content": [], "_meta": {}},
    "who it is": {"content": [], "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "puppet", "version": "1"}}},
    "unknown fields": {"content": [{"type": "text", "text": "a", "example": 1}], "example.com/new": [1], "n": None},
    "contents": {
        "content": [
            {"type": "text", "text": "a", "annotations": {"priority": 0.5, "audience": ["user"]}, "_meta": {"a": 1}},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "mem://one", "text": "one"}},
            {"type": "resource_link", "uri": "mem://two", "name": "two"},
        ]
    },
}
ODD: dict[str, Json] = {
    "no content": {},
    "content that is none": {"content": "a"},
    "content nobody knows": {"content": [{"type": "smell", "of": "roses"}]},
    "meta that is none": {"content": [], "_meta": [1]},
    "meta that is null": {"content": [], "_meta": None},
    "structure that is none": {"content": [], "structuredContent": 1},
    "an error that is none": {"content": [], "isError": "yes"},
    "of another kind": {"content": [], "resultType": "example.com/other"},
}
ERRORS: dict[str, Json] = {
    "plain": {"code": -32050, "message": "It is refused"},
    "with data": {"code": -32050, "message": "It is refused", "data": {"why": [1, None, "ü"]}},
    "of the protocol": {"code": -32602, "message": "Invalid params", "data": "a"},
    "unknown method": {"code": -32601, "message": "Method not found"},
    "about sessions": {"code": -32600, "message": "Session not found"},
    "that looks like ours": {"code": -32000, "message": "Connection closed"},
}


def told(answer: Answer) -> str:
    """Return what was said to the letter, but for the order of it and who says it."""
    said = answer.said
    result: Any = said.get("result")
    if isinstance(result, dict) and isinstance(meta := cast("Json", result).get("_meta"), dict):
        left = {name: value for name, value in cast("Json", meta).items() if name != SERVER_INFO_META_KEY}
        result["_meta"] = left or None
        if not left:
            del result["_meta"]
    return json.dumps(said, sort_keys=True)


def says_what_it_is_told(puppet: Puppet) -> None:
    async def say(exchange: Exchange) -> Json:
        what = exchange.arguments["what"]
        if what in ERRORS:
            raise Refusal(ERRORS[what])
        return {**RESULTS, **ODD}[what]

    puppet.tools["say"] = say


@both_servers
async def test_a_result_is_the_same_on_both_ways(puppet: Puppet, version: str, meet: Meet, long_way: LongWay) -> None:
    says_what_it_is_told(puppet)
    caller = await meet(version)
    for what in RESULTS:
        short = await caller.call("say", what=what)
        assert long_way.calls == 0, what
        long = await caller.call("say", is_long=True, what=what)
        assert (long_way.calls, len(puppet.of("tools/call"))) == (1, 2)
        assert (short.status, told(short)) == (long.status, told(long)), what
        puppet.sent.clear()
        long_way.calls = 0


async def test_who_answers_is_said_on_both_ways_or_on_none(puppet: Puppet, version: str, meet: Meet) -> None:
    says_what_it_is_told(puppet)
    caller = await meet(version)
    for what in ("nothing", "meta", "who it is"):
        short, long = await caller.call("say", what=what), await caller.call("say", is_long=True, what=what)
        assert short.said == long.said


async def test_an_odd_result_is_the_same_on_both_ways(puppet: Puppet, version: str, meet: Meet) -> None:
    says_what_it_is_told(puppet)
    caller = await meet(version)
    for what in ODD:
        short, long = await caller.call("say", what=what), await caller.call("say", is_long=True, what=what)
        assert (short.status, told(short)) == (long.status, told(long)), what
    assert len(puppet.of("tools/call")) == 2 * len(ODD)


@both_servers
async def test_an_error_is_the_same_on_both_ways(puppet: Puppet, version: str, meet: Meet) -> None:
    says_what_it_is_told(puppet)
    caller = await meet(version)
    for what in ERRORS:
        short, long = await caller.call("say", what=what), await caller.call("say", is_long=True, what=what)
        assert (short.status, short.headers, short.said) == (long.status, long.headers, long.said), what
        assert short.said["error"] == ERRORS[what]
    assert len(puppet.of("tools/call")) == 2 * len(ERRORS)


@both_servers
async def test_the_server_is_sent_the_same_on_both_ways(puppet: Puppet, version: str, meet: Meet) -> None:
    caller = await meet(version)
    arguments: Json = {"word": "ü\x00", "numbers": [2**53 + 1, 2**64, 1.0, 1e300], "deep": {"": [None, True]}}
    for is_long in (False, True):
        await caller.call("echo", is_long=is_long, **arguments)
    short, long = puppet.of("tools/call")
    assert (short.session, short.params["arguments"]) == (long.session, long.params["arguments"])
    assert short.params["arguments"] == arguments
    assert set(short.params) == set(long.params)
    assert without_names(short.params["_meta"]) == without_names(long.params["_meta"])


def without_names(meta: Json) -> Json:
    """Return it without what is another in each call."""
    return {name: type(value) if "oken" in name or "dempotency" in name else value for name, value in meta.items()}


async def test_what_a_caller_says_of_the_call_is_passed_on(puppet: Puppet, meet: Meet, long_way: LongWay) -> None:
    caller = await meet(NEWER)
    said = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "example.com/a": [1]}
    message = caller.message("tools/call", {"name": "up__echo", "arguments": {"word": "a"}, "_meta": said})
    await caller.post(message)
    assert long_way.calls == 0
    await caller.post(message, is_long=True)
    short, long = puppet.of("tools/call")
    assert said.items() <= short.params["_meta"].items()
    assert without_names(short.params["_meta"]) == without_names(long.params["_meta"])


IDS: list[Any] = [0, -1, 2**53, 2**70, "", "ü", "a" * 1000, 1.0, 1.5, True, None, [], {}]


async def test_an_id_is_given_back_or_refused_as_ever(version: str, meet: Meet) -> None:
    caller = await meet(version)
    for number in IDS:
        short, long = await twins(caller, {"id": number})
        assert (short.status, whole(short)) == (long.status, whole(long)), number
        if short.status == 200:
            assert repr(short.messages[-1]["id"]) == repr(long.messages[-1]["id"])


async def twins(caller: Caller, message: Json, headers: Headers | None = None) -> tuple[Answer, Answer]:
    """Send the same call both ways, with something changed about it."""
    call = {"name": "up__echo", "arguments": {"word": "a"}}
    whole = {**caller.message("tools/call", call), **message}
    return await caller.post(whole, headers), await caller.post(whole, headers, is_long=True)


HEADERS: list[Headers] = [
    {"host": "evil.example"},
    {"host": None},
    {"origin": "http://evil.example"},
    {"accept": "text/html"},
    {"accept": "application/json"},
    {"accept": None},
    {"content-type": "text/plain"},
    {"content-type": None},
    {"mcp-protocol-version": "1999-01-01"},
    {"mcp-protocol-version": None},
    {"mcp-method": "tools/list"},
    {"mcp-method": None},
    {"mcp-name": "up__other"},
    {"mcp-name": None},
    {"mcp-name": "up__ech\u00f6"},
    {"content-length": "7"},
]


async def test_headers_are_judged_alike_on_both_ways(puppet: Puppet, version: str, meet: Meet) -> None:
    caller = await meet(version)
    for headers in HEADERS:
        short, long = await twins(caller, {}, headers)
        assert (short.status, whole(short)) == (long.status, whole(long)), headers
        assert len(puppet.of("tools/call")) == (2 if short.status == 200 else 0), headers
        puppet.sent.clear()


def whole(answer: Answer) -> str:
    """Return what was said, even if it is no message."""
    return told(answer) if answer.body[:1] in (b"{", b"e", b":") else answer.body.decode()


BODIES: list[Json] = [
    {"jsonrpc": "1.0"},
    {"jsonrpc": None},
    {"method": "tools/list"},
    {"method": 1},
    {"params": None},
    {"params": []},
    {"params": {"name": "up__echo"}},
    {"more": 1},
]
PARAMS: list[Json] = [
    {"arguments": None},
    {"arguments": []},
    {"arguments": {"word": 1}},
    {"name": "up__unknown"},
    {"name": "down__echo"},
    {"name": 1},
    {"task": {"ttl": 1000}},
    {"inputResponses": {}},
    {"requestState": "a"},
    {"more": 1},
]


async def test_bodies_are_judged_alike_on_both_ways(version: str, meet: Meet) -> None:
    caller = await meet(version)
    for change in BODIES:
        short, long = await twins(caller, change)
        assert (short.status, whole(short)) == (long.status, whole(long)), change


async def test_params_are_judged_alike_on_both_ways(version: str, meet: Meet) -> None:
    caller = await meet(version)
    for change in PARAMS:
        call: Json = {"name": "up__echo", "arguments": {"word": "a"}, **change}
        headers = {"mcp-name": f"{call['name']}"} if caller.is_modern else {}
        short, long = await twins(caller, {"params": caller.message("tools/call", call)["params"]}, headers)
        assert short.status == long.status, change
        if b"taskId" not in short.body:
            assert whole(short) == whole(long), change


ENVELOPES: list[Json] = [
    {CLIENT_CAPABILITIES_META_KEY: []},
    {CLIENT_CAPABILITIES_META_KEY: None},
    {"io.modelcontextprotocol/protocolVersion": OLDER},
    {"io.modelcontextprotocol/clientInfo": "me"},
    {"io.modelcontextprotocol/logLevel": "debug"},
    {"progressToken": []},
]


async def test_envelopes_are_judged_alike_on_both_ways(meet: Meet) -> None:
    caller = await meet(NEWER)
    message = caller.message("tools/call", {"name": "up__echo", "arguments": {"word": "a"}})
    for change in ENVELOPES:
        params = {**message["params"], "_meta": {**message["params"]["_meta"], **change}}
        short, long = await twins(caller, {"params": params})
        assert (short.status, whole(short)) == (long.status, whole(long)), change


RAW = [
    b"",
    b"{",
    b"[]",
    b"1",
    b'"tools/call"',
    b"null",
    b"[%b]",
    b"%b%b",
    b"\xef\xbb\xbf%b",
    b'{"a":"\xff","b":%b}',
    b" %b\n",
]


async def test_what_is_no_request_is_refused_as_ever(puppet: Puppet, version: str, meet: Meet) -> None:
    caller = await meet(version)
    message = caller.message("tools/call", {"name": "up__echo", "arguments": {"word": "a"}})
    headers = {"mcp-name": "up__echo"} if caller.is_modern else {}
    for raw in RAW:
        body = raw.replace(b"%b", json.dumps(message).encode())
        short, long = await caller.post(body, headers), await caller.post(body, headers, is_long=True)
        assert (short.status, whole(short)) == (long.status, whole(long)), raw
        assert len(puppet.of("tools/call")) == (2 if short.status == 200 else 0), raw
        puppet.sent.clear()


async def test_a_large_body_is_answered_or_refused_as_ever(puppet: Puppet, version: str, meet: Meet) -> None:
    caller = await meet(version)
    for size in (4_000, 65_000, 70_000, 5_000_000):
        word = "a" * size
        short, long = await caller.call("echo", word=word), await caller.call("echo", is_long=True, word=word)
        assert (short.status, whole(short)) == (long.status, whole(long)), size
        assert len(puppet.of("tools/call")) == (2 if short.status == 200 else 0), size
        puppet.sent.clear()


async def test_a_number_of_too_many_digits_is_refused_as_ever(puppet: Puppet, version: str, meet: Meet) -> None:
    caller = await meet(version)
    message = json.dumps(caller.message("tools/call", {"name": "up__echo", "arguments": {"word": "a", "n": 1234567}}))
    body = message.replace("1234567", "9" * 5000).encode()
    headers = {"mcp-name": "up__echo"} if caller.is_modern else {}
    answer = await caller.post(body, headers)
    assert (answer.status, len(puppet.of("tools/call"))) == (400, 0)
