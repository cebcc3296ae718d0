"""Messages that are no good: malformed, ambiguous, too large, or from a page that was lured here."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

import pytest

from tests.requirements.marks import requirement
from tests.security.attacks import MARK
from tests.security.callers import OLD, PATIENCE, Caller, Json, Modern, Older, Reply
from tests.security.conftest import Become
from tests.security.served import Served

pytestmark = pytest.mark.slow

KINDS = pytest.mark.parametrize("kind", [Modern, Older], ids=["2026-07-28", "2025-11-25"])
ONE_OBJECT = "Body must be a single JSON-RPC request or notification object"


@pytest.fixture(scope="module")
def callers(anyones: Served) -> Generator[dict[type[Caller], Caller]]:
    with closing(Modern(anyones.url)) as modern, closing(Older(anyones.url)) as older:
        yield {Modern: modern, Older: older}


@pytest.fixture(scope="module")
def own(callers: dict[type[Caller], Caller]) -> Generator[dict[type[Caller], str]]:
    """A task of each."""
    ids = {kind: caller.hand_in("endless", secret=MARK) for kind, caller in callers.items()}
    yield ids
    for kind, task_id in ids.items():
        callers[kind].ask("tasks/cancel", taskId=task_id)


def _nested(depth: int) -> Callable[[bytes], bytes]:
    return lambda body: body.replace(b'"method":', b'"more":' + b"[" * depth + b"]" * depth + b',"method":', 1)


BODIES: dict[str, tuple[Callable[[bytes], bytes], int, int]] = {
    "nothing": (lambda body: b"", -32700, -32700),
    "words": (lambda body: b"hello", -32700, -32700),
    "cut": (lambda body: body[:-3], -32700, -32700),
    "twice": (lambda body: body + body, -32700, -32700),
    "not UTF-8": (lambda body: body.replace(b"tasks/", b"tasks\xff"), -32700, -32700),
    "null": (lambda body: b"null", -32600, -32602),
    "a number": (lambda body: b"1", -32600, -32602),
    "a text": (lambda body: b'"tasks/get"', -32600, -32602),
    "another version of JSON-RPC": (lambda body: body.replace(b'"2.0"', b'"1.0"'), -32600, -32602),
    "a batch": (lambda body: b"[" + body + b"," + body + b"]", -32600, -32602),
    "a batch of one": (lambda body: b"[" + body + b"]", -32600, -32602),
    "an empty batch": (lambda body: b"[]", -32600, -32602),
    "a mixed batch": (
        lambda body: b"[" + body + b',{"jsonrpc":"2.0","method":"notifications/initialized"}]', -32600, -32602
    ),
    "brackets without end": (lambda body: b"[" * 200_000, -32700, -32700),
    "deeply nested": (_nested(100_000), -32700, -32700),
    "a number of 5000 digits": (lambda body: body.replace(b'"id": 1', b'"id": ' + b"9" * 5000), -32700, -32700),
}  # fmt: skip


@requirement("T-02", "F-061", "S-060", "S-062")
@KINDS
@pytest.mark.parametrize(("change", "modern", "older"), BODIES.values(), ids=list(BODIES))
def test_a_body_that_is_no_request_is_refused_and_carried_out_nowhere(
    callers: dict[type[Caller], Caller],
    own: dict[type[Caller], str],
    kind: type[Caller],
    change: Callable[[bytes], bytes],
    modern: int,
    older: int,
) -> None:
    caller = callers[kind]
    before = caller.get(own[kind])
    body = caller.body("tasks/cancel", {"taskId": own[kind]})
    refused = caller.post(change(json.dumps(body).encode()), mcp_method="tasks/cancel", mcp_name=own[kind])
    assert refused.status == 400
    assert refused.error["code"] == (modern if kind is Modern else older)
    assert MARK not in refused.body.decode()
    if refused.error["code"] == -32600:
        assert refused.error["message"] == ONE_OBJECT
    assert caller.get(own[kind]) == before


NUMBERS = {"a thousand digits": "9" * 1000, "an exponent": "1e400", "minus that": "-1e400", "not a number": "NaN"}


@requirement("F-061", "S-062")
@KINDS
@pytest.mark.parametrize("number", NUMBERS.values(), ids=list(NUMBERS))
@pytest.mark.parametrize("where", ["ttl", "seconds", "cursor"])
def test_a_number_that_is_none_breaks_nothing(
    callers: dict[type[Caller], Caller], own: dict[type[Caller], str], kind: type[Caller], number: str, where: str
) -> None:
    caller, task_id = callers[kind], own[kind]
    sent: dict[str, tuple[str, Json]] = {
        "ttl": ("tools/call", {"name": "keep", "arguments": {"secret": "x"}, "task": {"ttl": "NUMBER"}}),
        "seconds": ("tools/call", {"name": "wait_task", "arguments": {"task_id": task_id, "seconds": "NUMBER"}}),
        "cursor": ("tools/call", {"name": "list_tasks", "arguments": {"cursor": "NUMBER"}}),
    }
    method, params = sent[where]
    if where == "ttl" and kind is Modern:
        params = {**params, "_meta": {"io.modelcontextprotocol/task": {"ttl": "NUMBER"}}}
    if where == "seconds" and not number.startswith("-"):
        params = {**params, "arguments": {"task_id": "no such task", "seconds": "NUMBER"}}  # or it would be waited for
    body = json.dumps(caller.body(method, params)).replace('"NUMBER"', number).encode()
    answer = caller.post(body, mcp_method=method, mcp_name=str(params["name"]))
    assert answer.status in (200, 202, 400)
    assert "Traceback" not in answer.body.decode()
    assert caller.get(task_id)["status"] == "working"


@requirement("S-059", "ER-7")
@pytest.mark.parametrize("first", [True, False], ids=["the foreign one first", "the foreign one last"])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_of_an_id_that_is_said_twice_the_last_counts_for_the_header_and_for_the_owner(
    become: Become, ann: Modern, target: Any, method: str, first: bool
) -> None:
    bob = become(Modern, user="bob")
    own = bob.hand_in("endless", secret="of bob")
    before = ann.get(target.task_id)
    ids = (target.task_id, own) if first else (own, target.task_id)
    body = json.dumps(bob.body(method, {"taskId": ids[1], "inputResponses": {}})).encode()
    twice = body.replace(b'"taskId": ', b'"taskId": "' + ids[0].encode() + b'", "taskId": ', 1)
    named = [bob.post(twice, mcp_method=method, mcp_name=one) for one in ids]
    assert named[0].error["code"] == -32020
    if first:
        assert "result" in named[1].message
    else:
        assert named[1].error == {"code": -32602, "message": "Failed to retrieve task: Task not found"}
    assert ann.get(target.task_id) == before
    bob.ask("tasks/cancel", taskId=own)


@requirement("F-062", "F-057")
@KINDS
@pytest.mark.parametrize("accounts", [("ann", "bob"), ("bob", "ann")])
def test_what_a_rule_looks_at_is_what_the_tool_gets(
    become: Become, kind: type[Caller], accounts: tuple[str, str]
) -> None:
    caller = become(kind, client="rights", roles=["payer"])
    call: Json = {"name": "pay", "arguments": {"account": accounts[1]}}
    body = json.dumps(caller.body("tools/call", call)).encode()
    twice = body.replace(b'"account": ', b'"account": "' + accounts[0].encode() + b'", "account": ', 1)
    answer = caller.post(twice, mcp_method="tools/call", mcp_name="pay")
    if accounts[1] == "bob":
        assert answer.error["code"] == -31403
    else:
        assert "error" not in answer.message
    assert "paid from bob" not in answer.body.decode()


HEADERS: dict[str, tuple[dict[str, str | None], int, str]] = {
    "another method": ({"mcp_method": "tools/list"}, -32020, "mcp-method header does not match"),
    "a method in capitals": ({"mcp_method": "TASKS/GET"}, -32020, "mcp-method header does not match"),
    "no method": ({"mcp_method": None}, -32020, "mcp-method header does not match"),
    "another name": ({"mcp_name": "KvSHdwKq-goaDYeR5bLD8ZU-ZR-vsO0bFQtB"}, -32020, "The mcp-name header must repeat"),
    "an empty name": ({"mcp_name": ""}, -32020, "The mcp-name header must repeat"),
    "no name": ({"mcp_name": None}, -32020, "The mcp-name header must repeat"),
    "an unknown version": (
        {"mcp_protocol_version": "1999-01-01"},
        -32020,
        "mcp-protocol-version header does not match",
    ),
    "an older version": ({"mcp_protocol_version": OLD}, -32600, "Bad Request: Missing session ID"),
    "no version": ({"mcp_protocol_version": None}, -32600, "Bad Request: Missing session ID"),
}


@requirement("ER-7", "S-059", "S-060", "C-022")
@pytest.mark.parametrize(("replaced", "code", "words"), HEADERS.values(), ids=list(HEADERS))
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_headers_that_contradict_the_body_are_refused_whoever_has_the_task(
    ann: Modern, become: Become, target: Any, method: str, replaced: dict[str, str | None], code: int, words: str
) -> None:
    before = ann.get(target.task_id)
    answers = [
        caller.post(caller.body(method, {"taskId": target.task_id, "inputResponses": {}}), **replaced)
        for caller in (ann, become(Modern, user="bob"))
    ]
    for refused in answers:
        assert refused.status == 400
        assert refused.error["code"] == code
        assert refused.error["message"].startswith(words)
    assert answers[0].body == answers[1].body
    assert ann.get(target.task_id) == before


@requirement("ER-7")
def test_a_version_nobody_knows_is_refused_with_its_own_code(ann: Modern) -> None:
    body = json.dumps(ann.body("tools/list", {})).replace("2026-07-28", "2099-01-01").encode()
    refused = ann.post(body, mcp_method="tools/list", mcp_protocol_version="2099-01-01")
    assert (refused.status, refused.error["code"]) == (400, -32022)


LURED: dict[str, tuple[dict[str, str], int, bytes]] = {
    "another host": ({"host": "evil.example"}, 421, b"Invalid Host header"),
    "another host and our port": ({"host": "evil.example:8000"}, 421, b"Invalid Host header"),
    "a host that begins like ours": ({"host": "127.0.0.1.evil.example:80"}, 421, b"Invalid Host header"),
    "a host that ends like ours": ({"host": "evil-127.0.0.1"}, 421, b"Invalid Host header"),
    "no host to speak of": ({"host": ""}, 421, b"Invalid Host header"),
    "a page from elsewhere": ({"origin": "http://evil.example"}, 403, b"Invalid Origin header"),
    "a page over TLS": ({"origin": "https://127.0.0.1"}, 403, b"Invalid Origin header"),
    "a page from nowhere": ({"origin": "null"}, 403, b"Invalid Origin header"),
    "a page with a name like ours": ({"origin": "http://localhost.evil.example"}, 403, b"Invalid Origin header"),
    "a form": ({"content_type": "text/plain"}, 400, b"Invalid Content-Type header"),
    "an upload": ({"content_type": "multipart/form-data; boundary=x"}, 400, b"Invalid Content-Type header"),
}


@requirement("F-062")
@KINDS
@pytest.mark.parametrize(("replaced", "status", "words"), LURED.values(), ids=list(LURED))
@pytest.mark.parametrize("method", ["tasks/cancel", "tools/call"])
def test_a_browser_that_was_lured_here_can_do_nothing(
    callers: dict[type[Caller], Caller],
    own: dict[type[Caller], str],
    kind: type[Caller],
    method: str,
    replaced: dict[str, str],
    status: int,
    words: bytes,
) -> None:
    caller = callers[kind]
    before = caller.get(own[kind])
    params: Json = {"name": "keep", "arguments": {"secret": "x"}} if method == "tools/call" else {"taskId": own[kind]}
    refused = caller.post(caller.body(method, params), **replaced)
    assert (refused.status, refused.body) == (status, words)
    assert caller.get(own[kind]) == before


# Too large


@requirement("F-062")
@KINDS
def test_a_body_that_is_too_large_is_refused(callers: dict[type[Caller], Caller], kind: type[Caller]) -> None:
    body = callers[kind].body("tools/call", {"name": "keep", "arguments": {"secret": "x" * (5 << 20)}})
    refused = callers[kind].post(body)
    assert (refused.status, refused.body) == (413, b"Request body too large")


@pytest.mark.parametrize("kind", [Modern, Older], ids=["2026-07-28", "2025-11-25"])
def test_headers_that_are_too_large_are_refused(callers: dict[type[Caller], Caller], kind: type[Caller]) -> None:
    caller = callers[kind]
    refused: Reply = caller.post(caller.body("tools/list", {}), x_more="y" * 70_000)
    assert refused.status == 431
    assert refused.body == b"The headers of the request are too large; send fewer or shorter ones."


RAW = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: */*\r\n"
STATED: dict[str, tuple[bytes, bytes]] = {
    "more than there may be": (b"Content-Length: 5000000000\r\n\r\n" + b"x" * 70_000, b" 413 "),
    "less than nothing": (b"Content-Length: -1\r\n\r\n", b" 400 "),
    "two of them": (b"Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc", b" 400 "),
    "and chunks": (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b" 400 "),
    "chunks of no size": (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b" 400 "),
    "a chunk of any size": (b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", b" 400 "),
}


@pytest.mark.parametrize(("stated", "status"), STATED.values(), ids=list(STATED))
def test_a_body_whose_length_is_a_lie_is_refused(anyones: Served, stated: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", anyones.port), PATIENCE) as line:
        line.sendall(RAW + b"Mcp-Protocol-Version: 2026-07-28\r\n" + stated)
        assert status in line.recv(65536).split(b"\r\n")[0]
