"""JSON-RPC over a socket of ours: answers, errors and what comes before them, as a server says them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from coatcheck.client.direct import Direct, Failed
from coatcheck.client.lean_http import LeanHTTP
from coatcheck.client.wire import Json, Params
from tests.client.scripted import LAST, PATIENCE, STREAM, Script, Scripted, Sent, Visit, chunk, event, scripted, whole

pytestmark = pytest.mark.anyio
ACCEPTED = whole(b"", status="202 Accepted")
OLDER = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "session-1"}
NEWER = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "do"}
CALL: Json = {"name": "do", "arguments": {}, "_meta": {"progressToken": "call-1"}}
ASKED: Json = {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {"message": "Sure?"}}


class Ear:
    """Hears what a server says beside its answers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Params]] = []
        self.asked_of: list[tuple[str, Json, str | int, str | None]] = []
        self.answer: Callable[[], Json] = lambda: {"action": "decline"}
        self.is_stuck = self.was_stopped = False
        self.is_asked = asyncio.Event()

    def notified(self, method: str, params: Params) -> bool:
        self.told.append((method, params))
        return True

    async def asked(self, method: str, params: Json, request_id: str | int, about: str | None = None) -> Json:
        self.asked_of.append((method, params, request_id, about))
        self.is_asked.set()
        try:
            if self.is_stuck:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_stopped = True
            raise
        return self.answer()

    def ended(self) -> None:
        """Nobody says so here."""


class Server:
    """Answers calls with what a test wants, and keeps what else it is sent."""

    def __init__(self, script: Callable[[Visit, Sent, Server], Any]) -> None:
        self._script = script
        self.posted: asyncio.Queue[Sent] = asyncio.Queue()

    async def __call__(self, visit: Visit) -> None:
        while True:
            sent = await visit.heard()
            if sent.message.get("method") == "tools/call":
                await self._script(visit, sent, self)
            else:
                self.posted.put_nowait(sent)
                await visit.say(ACCEPTED)


@asynccontextmanager
async def reached(script: Script) -> AsyncGenerator[tuple[Direct, Ear, Scripted]]:
    async with scripted(script) as server:
        ear = Ear()
        direct = Direct(LeanHTTP(server.url, {}), ear)
        try:
            async with asyncio.timeout(PATIENCE):
                yield direct, ear, server
        finally:
            direct.close()
            await server.until(lambda: not server.open)


def answered(sent: Sent, **said: Any) -> Json:
    return {"jsonrpc": "2.0", "id": sent.message["id"], **said}


def always(make: Callable[[Sent], bytes]) -> Script:
    async def script(visit: Visit) -> None:
        while True:
            await visit.say(make(await visit.heard()))

    return script


def streamed(*messages: Any) -> Callable[[Sent], bytes]:
    return lambda sent: STREAM + b"".join(event(m) for m in messages) + event(answered(sent, result={"a": 1})) + LAST


def plain(**said: Any) -> Callable[[Sent], bytes]:
    return lambda sent: whole(event(answered(sent, **said)).split(b"data: ")[1].split(b"\r\n")[0])


# Answers


@pytest.mark.parametrize("make", [plain(result={"a": 1}), streamed()], ids=["JSON", "events"])
async def test_a_result_is_returned_as_it_is(make: Callable[[Sent], bytes]) -> None:
    async with reached(always(make)) as (direct, _, server):
        for _ in range(3):
            assert await direct.request("tools/call", CALL, OLDER) == {"a": 1}
        assert server.visits == 1


ERRORS: list[Json] = [
    {"code": -32050, "message": "It is refused"},
    {"code": -32602, "message": "Unknown", "data": {"why": [1, None, "ü"]}},
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "404 Not Found", "500 Internal Server Error"])
async def test_an_error_is_told_word_for_word_whatever_http_says(error: Json, status: str) -> None:
    def make(sent: Sent) -> bytes:
        return plain(error=error)(sent).replace(b"200 OK", status.encode())

    async with reached(always(make)) as (direct, _, _):
        with pytest.raises(MCPError) as told:
            await direct.request("tools/call", CALL, OLDER)
        assert told.value.error.model_dump(exclude_none=True) == error


async def test_an_error_on_a_stream_is_told_word_for_word() -> None:
    def make(sent: Sent) -> bytes:
        return STREAM + event(answered(sent, error=ERRORS[1])) + LAST

    async with reached(always(make)) as (direct, _, server):
        for _ in range(2):
            with pytest.raises(MCPError) as told:
                await direct.request("tools/call", CALL, OLDER)
            assert told.value.error.model_dump(exclude_none=True) == ERRORS[1]
        assert server.visits == 1


async def test_what_is_neither_a_result_nor_an_error_is_told() -> None:
    for said in ({}, {"result": None}, {"result": [1]}, {"error": "no"}):
        async with reached(always(plain(**said))) as (direct, _, _):
            with pytest.raises(MCPError, match="neither a result nor an error"):
                await direct.request("tools/call", CALL, OLDER)


HTTP_TROUBLE: list[tuple[str, bytes, bool, bool, bool]] = [
    # status, body, was it sent, is it a refusal, may it succeed later
    ("401 Unauthorized", b"", False, True, False),
    ("401 Unauthorized", b'{"error": {"code": -32000, "message": "Who are you?"}}', False, True, False),
    ("403 Forbidden", b"<html>", False, True, False),
    ("404 Not Found", b'{"error": {"code": -32600, "message": "Session not found"}}', False, False, False),
    ("404 Not Found", b"", False, False, False),
    ("429 Too Many Requests", b"", False, False, True),
    ("502 Bad Gateway", b"<html>", True, False, True),
    ("503 Service Unavailable", b"", False, False, True),
    ("504 Gateway Timeout", b"", True, False, True),
    ("301 Moved Permanently", b"", False, False, False),
    ("307 Temporary Redirect", b"", False, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "was_sent", "is_refusal", "is_fault"), HTTP_TROUBLE)
async def test_what_http_says_is_why_there_is_no_answer(
    status: str, body: bytes, was_sent: bool, is_refusal: bool, is_fault: bool
) -> None:
    async with reached(always(lambda _: whole(body, "location: /other", status=status))) as (direct, _, server):
        for _ in range(2):
            with pytest.raises(Failed, match=f"HTTP {status[:3]}") as failed:
                await direct.request("tools/call", CALL, OLDER)
            trouble = failed.value.trouble
            assert (trouble.was_sent, trouble.is_refusal, trouble.is_fault) == (was_sent, is_refusal, is_fault)
            assert trouble.status == int(status[:3])
        assert server.visits == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"1", b'{"a": NaN}', b'{"a": "\xff"}'])
async def test_a_body_that_is_no_answer_is_said_to_be_none(body: bytes) -> None:
    async with reached(always(lambda _: whole(body))) as (direct, _, _):
        with pytest.raises(Failed, match="HTTP 200 with something that is no answer") as failed:
            await direct.request("tools/call", CALL, OLDER)
        assert failed.value.trouble.was_sent


async def test_a_connection_that_breaks_is_why_there_is_no_answer() -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(STREAM + event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))

    async with reached(script) as (direct, ear, _):
        with pytest.raises(Failed, match="broke") as failed:
            await direct.request("tools/call", CALL, OLDER)
        assert failed.value.trouble.was_sent
        assert ear.told == [("notifications/message", {})]


async def test_a_stream_that_ends_without_an_answer_is_said_to() -> None:
    async with reached(always(lambda _: STREAM + LAST)) as (direct, _, _):
        with pytest.raises(Failed, match="ended before the answer came") as failed:
            await direct.request("tools/call", CALL, OLDER)
        assert failed.value.trouble.was_sent


NONSENSE = [
    b"data: {not json\n\n",
    b'data: {"method": "notifications/message", "params": [1]}\n\n',
    b'data: {"method": "notifications/cancelled", "params": {"requestId": {}}}\n\n',
    b'data: {"id": {}, "method": "ping"}\n\n',
    b'data: {"id": [], "result": {}}\n\n',
    b"data: [1]\n\ndata: \n\ndata\n\n",
    b'data: {"a": "\\ud800"}\n\n',
]


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_nonsense_on_a_stream_does_not_hide_the_answer(nonsense: bytes) -> None:
    def make(sent: Sent) -> bytes:
        return STREAM + chunk(nonsense) + event(answered(sent, result={"a": 1})) + LAST

    async with reached(always(make)) as (direct, _, _):
        assert await direct.request("tools/call", CALL, OLDER) == {"a": 1}


async def test_a_stream_that_stays_open_after_the_answer_is_left() -> None:
    async def script(visit: Visit) -> None:
        sent = await visit.heard()
        await visit.say(STREAM + event(answered(sent, result={"a": 1})))
        await visit.until_left()

    async with reached(script) as (direct, _, server):
        for _ in range(5):
            assert await direct.request("tools/call", CALL, OLDER) == {"a": 1}
        await server.until(lambda: not server.open)


async def test_answers_to_calls_at_once_are_not_mixed_up() -> None:
    def make(sent: Sent) -> bytes:
        return STREAM + event(answered(sent, result=sent.message["params"]["arguments"])) + LAST

    async with reached(always(make)) as (direct, _, _):

        async def ask(number: int) -> None:
            assert await direct.request("tools/call", {"name": "do", "arguments": {"n": number}}, OLDER) == {
                "n": number
            }

        await asyncio.gather(*(ask(number) for number in range(50)))


# What comes before the answer


async def test_what_is_told_before_the_answer_is_heard_in_order() -> None:
    told = [{"jsonrpc": "2.0", "method": "notifications/message", "params": {"n": n}} for n in range(5)]
    async with reached(always(streamed(*told))) as (direct, ear, _):
        assert await direct.request("tools/call", CALL, OLDER) == {"a": 1}
        assert ear.told == [("notifications/message", {"n": n}) for n in range(5)]


async def asks(visit: Visit, sent: Sent, server: Server) -> None:
    """Ask something in the middle of a call, and answer that with the answer."""
    await visit.say(STREAM + event(ASKED))
    answer = await server.posted.get()
    said = {"message": answer.message, "session": answer.headers.get("mcp-session-id")}
    names = [name for name in ("mcp-method", "mcp-name") if name in answer.headers]
    await visit.say(event(answered(sent, result={**said, "names": names})) + LAST)


async def test_a_question_is_answered_in_its_session_and_is_of_its_call() -> None:
    async with reached(Server(asks)) as (direct, ear, _):
        result = await direct.request("tools/call", CALL, OLDER)
        answer = {"jsonrpc": "2.0", "id": 7, "result": {"action": "decline"}}
        assert result == {"message": answer, "session": "session-1", "names": []}
        assert ear.asked_of == [("elicitation/create", {"message": "Sure?"}, 7, "call-1")]


async def test_an_answer_is_not_said_to_be_a_call() -> None:
    async with reached(Server(asks)) as (direct, _, _):
        assert (await direct.request("tools/call", CALL, NEWER))["names"] == []


async def test_a_call_without_a_name_asks_without_one() -> None:
    async with reached(Server(asks)) as (direct, ear, _):
        await direct.request("tools/call", {"name": "do"}, OLDER)
        assert ear.asked_of[0][3] is None


def refuse() -> Json:
    raise MCPError(-32050, "Not now", {"why": 1})


def fail() -> Json:
    raise RuntimeError("a bug of ours")


async def test_a_question_that_is_refused_is_answered_with_the_error() -> None:
    async with reached(Server(asks)) as (direct, ear, _):
        ear.answer = refuse
        error = (await direct.request("tools/call", CALL, OLDER))["message"]["error"]
        assert error == {"code": -32050, "message": "Not now", "data": {"why": 1}}


async def test_a_question_is_answered_even_if_answering_fails() -> None:
    async with reached(Server(asks)) as (direct, ear, _):
        ear.answer = fail
        async with asyncio.timeout(PATIENCE):
            assert "error" in (await direct.request("tools/call", CALL, OLDER))["message"]


@pytest.mark.parametrize(
    ("method", "answer"),
    [("ping", {"result": {}}), ("what/ever", {"error": {"code": -32601, "message": "Method not found"}})],
)
async def test_what_is_no_question_is_answered_by_itself(method: str, answer: Json) -> None:
    async def script(visit: Visit, sent: Sent, server: Server) -> None:
        await visit.say(STREAM + event({"jsonrpc": "2.0", "id": "p", "method": method}))
        await visit.say(event(answered(sent, result=(await server.posted.get()).message)) + LAST)

    async with reached(Server(script)) as (direct, ear, _):
        assert await direct.request("tools/call", CALL, OLDER) == {"jsonrpc": "2.0", "id": "p", **answer}
        assert ear.asked_of == []


async def test_a_question_the_server_takes_back_is_stopped_and_not_answered() -> None:
    asked = asyncio.Event()

    async def script(visit: Visit, sent: Sent, server: Server) -> None:
        await visit.say(STREAM + event(ASKED))
        await asked.wait()
        back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        await visit.say(event(back) + event(answered(sent, result={})) + LAST)

    server = Server(script)
    async with reached(server) as (direct, ear, _):
        ear.is_stuck, ear.is_asked = True, asked
        assert await direct.request("tools/call", CALL, OLDER) == {}
        await asyncio.sleep(0)
        assert ear.was_stopped
        assert server.posted.empty()
        assert ear.told == []


# Cancelling


@pytest.mark.parametrize("has_begun", [True, False], ids=["in the middle of a stream", "before anything is said"])
@pytest.mark.parametrize("headers", [OLDER, NEWER], ids=["2025", "2026"])
async def test_a_call_that_is_cancelled_is_said_to_be_in_the_words_of_its_generation(
    headers: Json, has_begun: bool
) -> None:
    asked, left = asyncio.Event(), asyncio.Event()
    ids: list[Any] = []

    async def script(visit: Visit, sent: Sent, _: Server) -> None:
        ids.append(sent.message["id"])
        if has_begun:
            await visit.say(STREAM)
        asked.set()
        await visit.until_left()
        left.set()

    server = Server(script)
    async with reached(server) as (direct, _, made):
        calling = asyncio.create_task(direct.request("tools/call", CALL, headers))
        await asked.wait()
        for _ in range(5):  # turns of the loop, in which the head arrives
            await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await left.wait()
        if headers is OLDER:
            told = await server.posted.get()
            assert told.message["method"] == "notifications/cancelled"
            assert told.message["params"] == {"requestId": ids[0]}
            assert told.headers["mcp-session-id"] == "session-1"
        else:
            assert (server.posted.empty(), made.visits) == (True, 1)


async def test_close_ends_what_is_under_way() -> None:
    async def script(visit: Visit, sent: Sent, _: Server) -> None:
        await visit.say(STREAM + event(ASKED))
        await visit.until_left()

    async with reached(Server(script)) as (direct, ear, server):
        ear.is_stuck = True
        calling = asyncio.create_task(direct.request("tools/call", CALL, OLDER))
        await ear.is_asked.wait()
        direct.close()
        with pytest.raises(Failed):
            await calling
        await server.until(lambda: not server.open)
        assert ear.was_stopped
