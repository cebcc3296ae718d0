"""The shorter way gives what the SDK's way gives, whatever is asked, and writes what the SDK's way writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from coatcheck import Engine, decode
from tests.fuzz.asgi import Answer, send
from tests.fuzz.campaign import a_seed
from tests.fuzz.checks import created, heard_errors, told
from tests.fuzz.known import is_known, is_known_difference
from tests.fuzz.messages import Fuzzer, Message
from tests.fuzz.served import ALICE, a_server, populate, running, stop

pytestmark = pytest.mark.anyio

FEW, MANY = 500, 5_000
KINDS: dict[str, Callable[[Fuzzer], Message]] = {"polls": Fuzzer.poll, "calls": Fuzzer.call}
OF_THE_MOMENT = re.compile(rb'"(createdAt|lastUpdatedAt|expiresAt|requestState)":"[^"]*"')
"""What differs between two tasks of the same call, but for the task's id."""


async def told_apart(engine: Engine, answer: Answer) -> tuple[Any, ...]:
    """Return what two answers must have in common, and what was written because of them."""
    kind, text = answer.headers.get(b"content-type", b""), answer.body
    written: tuple[Any, ...] = ()
    if made := created(answer):
        task = await engine.get(made)
        written = (task.call.tool, decode(task.call.arguments), decode(task.call.meta), task.resumable, task.owner)
        await engine.forget(task)
        text = text.replace(made.encode(), b"?")
    if made or b'"resultType":"input_required"' in text:
        text = OF_THE_MOMENT.sub(b'"moment":"?"', text)
    body: Any = json.loads(text) if kind.startswith(b"application/json") else text
    return answer.status, kind, body, written, type(answer.raised)


async def compare(kind: str, count: int) -> None:
    seed, server = a_seed(), a_server("memory://")
    long = MCPServer.streamable_http_app(server, json_response=True)
    short = server.streamable_http_app(json_response=True)
    differences: list[str] = []
    results = 0
    with heard_errors() as errors:
        async with running(long), running(short):
            engine = server.tasks.running.engine
            targets, _ = await populate(engine, None, ALICE)
            fuzzer = Fuzzer(seed, targets)
            for _ in range(count):
                asked = KINDS[kind](fuzzer)
                expected, got = await send(long, asked), await send(short, asked)
                results += expected.status == 200
                if await told_apart(engine, expected) == await told_apart(engine, got) or is_known(asked, got):
                    continue
                if not is_known_difference(asked, expected, got):
                    differences.append(f"{asked}\n  SDK:  {expected}\n  ours: {got}")
            await stop(engine, None)
    assert not differences, f"{len(differences)} differences\n" + "\n".join(differences[:5])
    assert results > count / 20, "too few were answered for this to tell much"
    assert [told(error) for error in errors] == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_shorter_way_is_no_other_way(kind: str) -> None:
    await compare(kind, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_the_shorter_way_is_no_other_way_for_thousands_of_requests(kind: str) -> None:
    await compare(kind, MANY)
