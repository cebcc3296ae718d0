"""HTTP/1.1 over a socket of ours: whatever a server does with its bytes, an answer is an answer or it is broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from coatcheck.client.lean_http import Broken, LeanHTTP, Reply
from tests.client.scripted import LAST, PATIENCE, STREAM, Script, Scripted, Visit, chunk, head, scripted, whole

pytestmark = pytest.mark.anyio
PLAIN = whole(b'{"a": 1}')
CHUNKED = head("transfer-encoding: chunked") + chunk(b'{"a"') + chunk(b": 1}") + LAST
EVENTS = [b"one", b"two\nlines", b"three"]
SSE = STREAM + chunk(
    b": a comment\r\nevent: message\r\nid: 1\r\ndata: one\r\n\r\n"
    b"data: two\ndata: lines\n\n:\n\nretry: 5\r\ndata:three\r\n\r\ndata: never finished\r\n"
) + LAST  # fmt: skip


@asynccontextmanager
async def reached(script: Script) -> AsyncGenerator[tuple[LeanHTTP, Scripted]]:
    async with scripted(script) as server:
        http = LeanHTTP(server.url, {})
        try:
            async with asyncio.timeout(PATIENCE):
                yield http, server
        finally:
            http.close()
            await server.until(lambda: not server.open)


def always(*parts: bytes) -> Script:
    """Give the same answer to every request."""

    async def script(visit: Visit) -> None:
        while True:
            await visit.heard()
            await visit.say(*parts)

    return script


async def echo(visit: Visit) -> None:
    while True:
        await visit.say(whole((await visit.heard()).body))


async def all_events(reply: Reply) -> list[bytes]:
    return [data async for data in reply.events()]


# Bodies


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED], ids=["with a length", "in chunks"])
async def test_a_body_is_read_to_its_end(answer: bytes) -> None:
    async with reached(always(answer)) as (http, _):
        reply = await http.post(b"{}", {})
    assert (reply.status, reply.body, reply.is_stream, reply.is_complete) == (200, b'{"a": 1}', False, True)


async def test_what_is_sent_is_a_request_of_http() -> None:
    heard: list[object] = []

    async def script(visit: Visit) -> None:
        sent = await visit.heard()
        heard.extend((sent.line, sent.headers, sent.body))
        await visit.say(PLAIN)

    async with scripted(script) as server:
        http = LeanHTTP(f"{server.url}?a=b", {"X-Own": "mine"})
        await http.post(b'"\xc3\xbc"', {"mcp-name": "do"})
        http.close()
    assert heard == [
        "POST /mcp?a=b HTTP/1.1",
        {
            "host": f"127.0.0.1:{server.port}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "x-own": "mine",
            "mcp-name": "do",
            "content-length": "4",
        },
        b'"\xc3\xbc"',
    ]


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, SSE], ids=["with a length", "in chunks", "events"])
async def test_wherever_an_answer_is_cut_it_is_the_same(answer: bytes) -> None:
    async def script(visit: Visit) -> None:
        for at in range(1, len(answer)):
            await visit.heard()
            await visit.say(answer[:at], answer[at:])

    async with reached(script) as (http, server):
        for _ in range(1, len(answer)):
            assert await what_is_said(http) == ([b'{"a": 1}'] if answer != SSE else EVENTS)
        assert server.visits == 1


@given(some.data())
@settings(max_examples=25, deadline=None)
def test_however_often_it_is_cut_it_is_the_same(data: some.DataObject) -> None:
    answer = data.draw(some.sampled_from((PLAIN, CHUNKED, SSE)))
    cuts = sorted(data.draw(some.sets(some.integers(1, len(answer) - 1), max_size=30)))
    parts = [answer[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]

    async def run() -> None:
        async with reached(always(*parts)) as (http, _):
            for _ in range(2):
                assert await what_is_said(http) == ([b'{"a": 1}'] if answer != SSE else EVENTS)

    asyncio.run(run())


async def what_is_said(http: LeanHTTP) -> list[bytes]:
    reply = await http.post(b"{}", {})
    return await all_events(reply) if reply.is_stream else [reply.body]


async def test_a_body_may_end_with_its_connection() -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(head("content-type: application/json"), b'{"a"', b": 1}")

    async with reached(script) as (http, _):
        assert (await http.post(b"{}", {})).body == b'{"a": 1}'


async def test_events_may_end_with_their_connection() -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(head("content-type: text/event-stream"), b"data: one\n\n")

    async with reached(script) as (http, _):
        assert await all_events(await http.post(b"{}", {})) == [b"one"]


async def test_an_early_hint_is_no_answer() -> None:
    hints = head(status="100 Continue") + head(
        "link: </a>", "content-type: text/event-stream", status="103 Early Hints"
    )
    async with reached(always(hints, PLAIN)) as (http, server):
        for _ in range(2):
            reply = await http.post(b"{}", {})
            assert (reply.status, reply.body, reply.is_stream) == (200, b'{"a": 1}', False)
        assert server.visits == 1


async def test_a_hint_in_the_same_packet_is_none_either() -> None:
    async with reached(always(head(status="100 Continue") + SSE)) as (http, _):
        for _ in range(2):
            assert await all_events(await http.post(b"{}", {})) == EVENTS


async def test_an_error_with_events_is_a_body() -> None:
    refused = whole(b"data: no\n\n", status="400 Bad Request", kind="text/event-stream")
    async with reached(always(refused)) as (http, _):
        reply = await http.post(b"{}", {})
        assert (reply.status, reply.body, reply.is_complete) == (400, b"data: no\n\n", True)


async def test_what_is_no_http_is_said_to_be_none() -> None:
    async with reached(always(b"SSH-2.0-OpenSSH\r\n")) as (http, _):
        with pytest.raises(Broken, match="does not speak HTTP") as refused:
            await http.post(b"{}", {})
        assert refused.value.was_sent


# Connections


async def test_a_connection_is_kept_and_used_again() -> None:
    async with reached(echo) as (http, server):
        for number in range(20):
            assert (await http.post(b"%d" % number, {})).body == b"%d" % number
        assert (server.visits, server.open) == (1, 1)


@pytest.mark.parametrize("answer", [whole(b"1", "connection: close"), PLAIN.replace(b"1.1", b"1.0", 1)])
async def test_a_connection_that_is_to_be_closed_is_not_used_again(answer: bytes) -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(answer)
        await visit.until_left()

    async with reached(script) as (http, server):
        for _ in range(3):
            assert (await http.post(b"{}", {})).status == 200
        await server.until(lambda: not server.open)
        assert server.visits == 3


async def test_a_connection_that_ended_while_idle_is_not_used_again() -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(PLAIN)

    async with reached(script) as (http, server):
        for number in range(1, 5):
            assert (await http.post(b"{}", {})).status == 200
            await server.until(lambda: not server.open)
            for _ in range(5):  # turns of the loop, in which the end arrives
                await asyncio.sleep(0)
            assert server.visits == number


async def test_what_nobody_asked_for_ends_the_connection() -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(PLAIN, whole(b'"not yours"'))
        await visit.until_left()

    async with reached(script) as (http, server):
        assert (await http.post(b"{}", {})).body == b'{"a": 1}'
        await server.until(lambda: not server.open)
        assert (await http.post(b"{}", {})).body == b'{"a": 1}'
        assert server.visits == 2


async def test_what_follows_an_answer_in_its_packet_is_not_the_next_answer() -> None:
    async def script(visit: Visit) -> None:
        stray = whole(b'"not yours"')
        await visit.heard()
        await visit.say(PLAIN + stray[:30])
        await visit.heard()
        await visit.say(stray[30:] if visit.number == 1 else PLAIN)

    async with reached(script) as (http, server):
        await http.post(b"{}", {})
        assert (await http.post(b"{}", {})).body == b'{"a": 1}'
        assert server.visits == 2


@pytest.mark.parametrize("said", [b"", PLAIN[:20], PLAIN[:-1], CHUNKED[:-1]])
async def test_a_connection_that_breaks_leaves_a_request_without_an_answer(said: bytes) -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(said)

    async with reached(script) as (http, _):
        with pytest.raises(Broken, match=r"the connection to 127\.0\.0\.1:\d+ broke") as refused:
            await http.post(b"{}", {})
        assert refused.value.was_sent


async def test_nobody_there_means_that_nothing_was_sent() -> None:
    async with scripted(echo) as server:
        pass
    http = LeanHTTP(server.url, {})
    with pytest.raises(Broken, match="refuses connections") as refused:
        await http.post(b"{}", {})
    assert not refused.value.was_sent


async def test_fifty_at_once_each_have_their_own_answer() -> None:
    async with reached(echo) as (http, server):

        async def ask(number: int) -> None:
            assert (await http.post(b"%d" % number, {})).body == b"%d" % number

        for _ in range(3):
            await asyncio.gather(*(ask(number) for number in range(50)))
        assert server.visits <= 50 + 2 * 30  # no more than twenty are kept
        await server.until(lambda: server.open <= 20)


async def test_close_leaves_nothing_open() -> None:
    is_asked = asyncio.Event()

    async def script(visit: Visit) -> None:
        if (await visit.heard()).body == b"stuck":
            is_asked.set()
            await visit.until_left()
        await visit.say(PLAIN)
        await visit.until_left()

    async with scripted(script) as server:
        http = LeanHTTP(server.url, {})
        stuck = asyncio.create_task(http.post(b"stuck", {}))
        await http.post(b"{}", {})
        await is_asked.wait()
        http.close()
        await server.until(lambda: not server.open)
        with pytest.raises(Broken):
            await stuck


async def test_close_does_not_leave_a_connection_that_is_being_made() -> None:
    async with scripted(echo) as server:
        http = LeanHTTP(server.url, {})
        late = asyncio.create_task(http.post(b"{}", {}))
        await asyncio.sleep(0)
        http.close()
        await asyncio.wait((late,), timeout=PATIENCE)
        late.exception()
        try:
            async with asyncio.timeout(PATIENCE):
                await server.until(lambda: not server.open)
        finally:
            http.close()


# Events


@pytest.mark.parametrize("is_broken", [True, False])
async def test_events_that_came_before_the_end_are_given(is_broken: bool) -> None:
    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(STREAM, chunk(b"data: one\n\ndata: tw"), b"" if is_broken else LAST)

    async with reached(script) as (http, _):
        found: list[bytes] = []

        async def follow() -> None:
            async for data in (await http.post(b"{}", {})).events():
                found.append(data)  # noqa: PERF401, as what came is wanted even if it breaks

        if is_broken:
            with pytest.raises(Broken) as refused:
                await follow()
            assert refused.value.was_sent
        else:
            await follow()
        assert found == [b"one"]


async def test_events_are_given_as_they_come() -> None:
    go_on = asyncio.Event()

    async def script(visit: Visit) -> None:
        await visit.heard()
        await visit.say(STREAM, chunk(b"data: one\n\n"))
        await go_on.wait()
        await visit.say(chunk(b"data: two\n\n") + LAST)
        await visit.until_left()

    async with reached(script) as (http, _):
        events = (await http.post(b"{}", {})).events()
        assert await anext(events) == b"one"
        go_on.set()
        assert [data async for data in events] == [b"two"]


async def test_events_in_one_packet_are_not_mixed_up_with_the_next_request() -> None:
    async def script(visit: Visit) -> None:
        while True:
            body = (await visit.heard()).body
            visit.say_now(STREAM + chunk(b"data: %b\n\n" % body) + LAST)

    async with reached(script) as (http, server):

        async def ask(number: int) -> None:
            reply = await http.post(b"%d" % number, {})
            other = await http.post(b"other %d" % number, {})  # on the same connection, before the first is read
            assert await all_events(other) == [b"other %d" % number]
            assert await all_events(reply) == [b"%d" % number]

        await ask(0)
        assert server.visits == 1
        await asyncio.gather(*(ask(number) for number in range(20)))


async def test_a_stream_that_is_dropped_ends_its_connection_only() -> None:
    async def script(visit: Visit) -> None:
        while (await visit.heard()).body != b"stream":
            await visit.say(PLAIN)
        await visit.say(STREAM)
        await visit.until_left()

    async with reached(script) as (http, server):
        reply = await http.post(b"stream", {})
        await http.post(b"{}", {})
        reply.drop()
        await server.until(lambda: server.open == 1)
        await http.post(b"{}", {})
        assert server.visits == 2


async def test_a_stream_that_is_over_can_be_dropped_without_harm() -> None:
    async with reached(always(SSE)) as (http, server):
        first = await http.post(b"{}", {})
        await all_events(first)
        second = await http.post(b"{}", {})
        first.drop()
        assert await all_events(second) == EVENTS
        assert server.visits == 1


# Cancelling


async def test_a_request_that_is_cancelled_takes_its_connection_along_and_no_other() -> None:
    is_asked = asyncio.Event()

    async def script(visit: Visit) -> None:
        while (await visit.heard()).body != b"stuck":
            await visit.say(PLAIN)
        is_asked.set()
        await visit.until_left()

    async with reached(script) as (http, server):
        stuck = asyncio.create_task(http.post(b"stuck", {}))
        await is_asked.wait()
        await http.post(b"{}", {})
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        await server.until(lambda: server.open == 1)
        await http.post(b"{}", {})
        assert server.visits == 2


async def test_a_request_that_is_cancelled_as_its_answer_comes_leaves_the_next_one_alone() -> None:
    """The answer has come, the connection is another's already; only then does the first learn that it is cancelled."""
    loop, visits = asyncio.get_running_loop(), list[Visit]()
    is_asked = [asyncio.Event(), asyncio.Event()]

    async def script(visit: Visit) -> None:
        visits.append(visit)
        for each in is_asked:
            await visit.heard()
            each.set()
        await visit.say(PLAIN)
        await visit.until_left()

    async with reached(script) as (http, server):
        first = asyncio.create_task(http.post(b"first", {}))
        await is_asked[0].wait()
        go_on = asyncio.Event()

        async def next_one() -> bytes:
            await go_on.wait()
            first.cancel()
            return (await http.post(b"second", {})).body

        second = asyncio.create_task(next_one())
        await asyncio.sleep(0)
        visits[0].say_now(PLAIN)
        loop.call_soon(go_on.set)
        assert await second == b'{"a": 1}'
        assert server.visits == 1
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_a_request_that_is_cancelled_while_it_connects_leaves_nothing() -> None:
    async with reached(echo) as (http, server):
        for turns in range(8):
            asking = asyncio.create_task(http.post(b"{}", {}))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        assert (await http.post(b'"on"', {})).body == b'"on"'
        await server.until(lambda: server.open <= 1)
