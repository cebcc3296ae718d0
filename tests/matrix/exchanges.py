"""Each way of a call as an exchange of messages: sent, and compared with what the table says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import SERVER_INFO_META_KEY

from tests.matrix.clients import ACCEPTED, NAME, Json
from tests.matrix.peers import Heard, Peer, Pending
from tests.matrix.table import (
    BAD_PARAMS,
    NOT_FOUND,
    OUTCOMES,
    QUESTIONS_ON,
    REFUSALS,
    REQUEST_CANCELLED,
    TASKS_2025,
    TASKS_2026,
    Cell,
    Task,
    Way,
    cancels,
    held,
)

RELATED = "io.modelcontextprotocol/related-task"
IMMEDIATE = "io.modelcontextprotocol/model-immediate-response"
INPUT_KEY = "coatcheck/inputKey"
TERMINAL = {"completed", "failed", "cancelled"}
TTL = 1_800_000
"""Milliseconds. A lifetime becomes longer while a question is open, and if it would be over soon after the end."""

# As the SDK alone


async def plain(cell: Cell, peer: Peer, twin: Peer) -> None:
    """A plain call is answered as the SDK alone answers it, question and answer alike."""
    if cell.outcome == "cancelled":
        assert await _cancelled(cell, peer) == await _cancelled(cell, twin)
        return
    call, other = _begin(cell, peer), _begin(cell, twin)
    assert await call.answer() == await other.answer()
    assert _questions(cell, peer) == _questions(cell, twin)
    if cell.outcome != "asks":
        assert _unstamped(await call.answer()) == _said(cell)
    assert await _journal(cell, peer) == ["begun"]


async def plain_but_no_task(cell: Cell, peer: Peer, twin: Peer) -> None:
    refused = await _begin(cell, peer, task={"ttl": TTL}).answer()
    assert refused["error"]["code"] == NOT_FOUND
    assert await _journal(cell, peer) == []
    await plain(cell, peer, twin)


async def _cancelled(cell: Cell, peer: Peer) -> tuple[Json | None, list[str]]:
    """Return what comes of a call that is cancelled: its answer, if any, and what happened to the body."""
    call = _begin(cell, peer)
    await _until(cell, peer, "begun")
    await call.cancel()
    match cancels(cell.client, cell.transport):
        case "silence":
            await _until(cell, peer, "ended")
        case "an error":
            assert (await call.answer())["error"]["code"] == REQUEST_CANCELLED
            await _until(cell, peer, "ended")
        case "nothing":
            assert await _journal(cell, peer) == ["begun"]
            await peer.call("release", label=cell.name)
    happened = await _journal(cell, peer)
    return await call.answer() if call.is_answered else None, happened


async def refused(cell: Cell, peer: Peer, _: Peer) -> None:
    """A tool that is only ever a task does not even begin."""
    answer = await _begin(cell, peer).answer()
    expected = REFUSALS[cell.client.name]
    assert {name: answer["error"].get(name) for name in expected} == expected
    assert await _journal(cell, peer) == []


# As a task of 2025-11-25


async def task_2025(cell: Cell, peer: Peer, _: Peer) -> None:
    expected, call = TASKS_2025[cell.outcome], _begin(cell, peer, task={"ttl": TTL})
    created: Json = (await call.answer())["result"]
    assert created.keys() == {"task", "_meta"}
    assert created["_meta"].keys() == {IMMEDIATE}
    assert created["task"]["ttl"] == TTL
    task_id = _check_task(created["task"], "working")
    _check_announcement(cell, call, task_id)
    if cell.outcome == "cancelled":
        await _until(cell, peer, "begun")
        cancelled = await peer.request("tasks/cancel", {"taskId": task_id})
        assert _check_task(cancelled["result"], "cancelled") == task_id
        await _until(cell, peer, "ended")
    collecting = peer.begin("tasks/result", {"taskId": task_id})
    collected = await collecting.answer()
    _check_collected(cell, expected, collected, task_id)
    assert await peer.request("tasks/result", {"taskId": task_id}) == collected
    _check_questions(cell, peer, collecting, task_id)
    task: Json = (await peer.request("tasks/get", {"taskId": task_id}))["result"]
    assert _check_task(task, expected.statuses[-1]) == task_id
    if expected.message:
        assert task["statusMessage"] == cell.words(expected.message)
    told = await _statuses(peer, "notifications/tasks/status", task_id)
    assert _course(status for status, _ in told) == _course(expected.statuses)
    assert {_check_task(said, status) for status, said in told} == {task_id}
    assert told[-1][1] == task


def _check_collected(cell: Cell, expected: Task, collected: Json, task_id: str) -> None:
    """Check that `tasks/result` says what the call would have, and whose it is."""
    related = {RELATED: {"taskId": task_id}}
    if expected.ends_with == "cancellation":
        error = collected["error"]
        assert (error["code"], error["data"]) == (BAD_PARAMS, {"_meta": related})
        assert error["message"].startswith("Task was cancelled")
        return
    said = _said(cell)
    if expected.ends_with == "error":
        said["error"]["data"]["_meta"] = related
    else:
        said["result"]["_meta"] = related
    assert collected == said


def _check_task(task: Json, status: str) -> str:
    """Check a flat task of 2025-11-25 and return its id."""
    required = {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
    assert required <= task.keys() <= required | {"statusMessage"}
    assert task["status"] == status
    assert task["ttl"] >= TTL
    return task["taskId"]


def _check_announcement(cell: Cell, call: Pending, task_id: str) -> None:
    """Before it is given out, a task is announced on the stream of its call, if that is one."""
    if QUESTIONS_ON[cell.transport] == "the standing one":
        return
    first = next(heard for heard in call.heard_before if heard.params.get("taskId") == task_id)
    assert first.method == "notifications/tasks/status"
    assert first.params["status"] == "working"
    assert first.stream == _stream(cell, call)


def _check_questions(cell: Cell, peer: Peer, collecting: Pending, task_id: str) -> None:
    asked = _asked(cell, peer)
    if cell.outcome != "asks":
        assert asked == []
        return
    (question,) = asked
    meta = {RELATED: {"taskId": task_id}, INPUT_KEY: question.params["_meta"][INPUT_KEY]}
    assert question.params == {**cell.question, "_meta": meta}
    assert question.stream == _stream(cell, collecting)


# As a task of 2026-07-28


async def task_2026(cell: Cell, peer: Peer, _: Peer) -> None:
    expected = TASKS_2026[cell.outcome]
    created: Json = (await _begin(cell, peer).answer())["result"]
    assert created["resultType"] == "task"
    task_id = _check_new_task(created, "working")
    listening = peer.begin("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
    if cell.outcome == "cancelled":
        await _until(cell, peer, "begun")
        await _acknowledged(peer, "tasks/cancel", {"taskId": task_id})
        await _until(cell, peer, "ended")
    if cell.outcome == "asks":
        await _answer_2026(cell, peer, task_id)
    told = await _statuses(peer, "notifications/tasks", task_id)
    await listening.cancel()
    seen = [status for status, _ in told]
    assert _course([created["status"], *seen]) == _course(expected.statuses)
    task: Json = (await peer.request("tasks/get", {"taskId": task_id}))["result"]
    assert task["resultType"] == "complete"
    assert _check_new_task(task, expected.statuses[-1]) == task_id
    assert _payload(task) == _expected_payload(cell, expected)
    if expected.message:
        assert task["statusMessage"] == cell.words(expected.message)
    last = told[-1][1]
    assert last.pop("_meta") == {SUBSCRIPTION_ID_META_KEY: listening.id}
    assert {"resultType": "complete", **last} == _without(task, "_meta")


async def _answer_2026(cell: Cell, peer: Peer, task_id: str) -> None:
    def asks(heard: Heard) -> bool:
        return heard.params.get("taskId") == task_id and heard.params["status"] == "input_required"

    await peer.until(asks)
    asked: Json = (await peer.request("tasks/get", {"taskId": task_id}))["result"]
    _check_new_task(asked, "input_required")
    ((key, question),) = asked["inputRequests"].items()
    assert question == {"method": "elicitation/create", "params": cell.question}
    await _acknowledged(peer, "tasks/update", {"taskId": task_id, "inputResponses": {key: ACCEPTED}})


def _check_new_task(task: Json, status: str) -> str:
    """Check a task of 2026-07-28, all but its payload, and return its id."""
    required = {"resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
    assert required <= task.keys()
    assert task["status"] == status
    return task["taskId"]


def _payload(task: Json) -> Json:
    return {name: task[name] for name in ("result", "error", "inputRequests") if name in task}


def _expected_payload(cell: Cell, expected: Task) -> Json:
    return {} if expected.ends_with == "nothing" else _said(cell)


async def _acknowledged(peer: Peer, method: str, params: Json) -> None:
    assert _without((await peer.request(method, params))["result"], "_meta") == {"resultType": "complete"}


# As a held call


async def held_call(cell: Cell, peer: Peer, twin: Peer) -> None:
    match held(cell.client, cell.outcome, cell.transport):
        case "the plain answer":
            await plain(cell, peer, twin)
        case "a question, then the plain answer":
            call = _begin(cell, peer)
            answer = await call.answer()
            assert answer == _said(cell)
            assert answer == await _begin(cell, twin).answer()
            assert _questions(cell, peer) == _questions(cell, twin)
            assert [heard.stream for heard in _asked(cell, peer)] == [_stream(cell, call)]
        case "a round of the call, then the plain answer":
            asked: Json = (await _begin(cell, peer).answer())["result"]
            assert asked["resultType"] == "input_required"
            ((key, question),) = asked["inputRequests"].items()
            schema = _without(cell.question["requestedSchema"], "title")  # which the SDK leaves out of a round
            assert question == {"method": "elicitation/create", "params": {**cell.question, "requestedSchema": schema}}
            rest = {"requestState": asked["requestState"], "inputResponses": {key: ACCEPTED}}
            answer = await _begin(cell, peer, **rest).answer()
            assert {"result": _without(answer["result"], "_meta")} == _said(cell)
        case "a ticket to cancel":
            task_id = _check_ticket(cell, await _begin(cell, peer).answer(), "working")
            await _until(cell, peer, "begun")
            _check_ticket(cell, await peer.call("cancel_task", task_id=task_id), "cancelled")
            await _until(cell, peer, "ended")
            got = await peer.call("get_task", task_id=task_id)
            assert got["result"]["isError"] is True
            assert await peer.call("wait_task", task_id=task_id) == got
        case "a ticket to answer":
            ticket = await _begin(cell, peer).answer()
            task_id = _check_ticket(cell, ticket, "input_required")
            (question,) = ticket["result"]["structuredContent"]["task"]["questions"]
            assert (question["method"], question["params"]) == ("elicitation/create", cell.question)
            assert cell.question["message"] in ticket["result"]["content"][0]["text"]
            _check_ticket(cell, await peer.call("answer_task", task_id=task_id, content={"name": NAME}))
            waited = (await peer.call("wait_task", task_id=task_id))["result"]
            assert waited["_meta"][RELATED] == {"taskId": task_id}
            assert {"result": _without(waited, "_meta")} == _said(cell)
            assert _asked(cell, peer) == []


def _check_ticket(cell: Cell, answer: Json, status: str | None = None) -> str:
    """Check a ticket and return the id of its task."""
    result: Json = answer["result"]
    assert result["isError"] is False
    (content,) = result["content"]
    task: Json = result["structuredContent"]["task"]
    required = {"taskId", "status", "tool", "createdAt", "expiresAt"}
    assert required <= task.keys() <= required | {"statusMessage", "questions"}
    assert task["tool"] == cell.tool
    assert status in (None, task["status"])
    assert content["type"] == "text"
    assert task["taskId"] in content["text"]
    if task["status"] not in TERMINAL:
        assert "wait_task" in content["text"] or task["status"] == "input_required"
    return task["taskId"]


# What they share


def _begin(cell: Cell, peer: Peer, **more: Any) -> Pending:
    return peer.begin("tools/call", {"name": cell.tool, "arguments": {"label": cell.name}, **more})


async def _until(cell: Cell, peer: Peer, word: str) -> None:
    answer = await peer.call("until", label=cell.name, word=word)
    assert answer["result"]["content"][0]["text"] == word


async def _journal(cell: Cell, peer: Peer) -> list[str]:
    return (await peer.call("read", label=cell.name))["result"]["structuredContent"]["result"]


def _said(cell: Cell) -> Json:
    """Return what the tool says by itself, as the client's version writes it, without the server's stamp."""
    said = OUTCOMES[cell.outcome]
    assert said
    text = cell.words(said.text)
    if said.code is not None:
        return {"error": {"code": said.code, "message": text, "data": {"label": cell.name}}}
    result: Json = {"content": [{"type": "text", "text": text}], "isError": said.is_error}
    if said.is_structured:
        result["structuredContent"] = {"result": text}
    if cell.client.is_modern:
        result["resultType"] = "complete"
    return {"result": result}


def _unstamped(answer: Json) -> Json:
    """Return an answer without what 2026-07-28 has on every result: who the server is."""
    meta = answer.get("result", {}).get("_meta")
    if meta is None:
        return answer
    assert meta.keys() == {SERVER_INFO_META_KEY}
    return {"result": _without(answer["result"], "_meta")}


def _asked(cell: Cell, peer: Peer) -> list[Heard]:
    """Return what the server asked this client for the cell's call."""
    message = cell.question["message"]
    return [heard for heard in peer.heard if "id" in heard.message and heard.params.get("message") == message]


def _questions(cell: Cell, peer: Peer) -> list[Json]:
    return [_without(heard.message, "id") for heard in _asked(cell, peer)]


def _stream(cell: Cell, request: Pending) -> int | None:
    """Return the stream on which a request is told what belongs to it."""
    return request.id if QUESTIONS_ON[cell.transport] == "its own" else None


async def _statuses(peer: Peer, method: str, task_id: str) -> list[tuple[str, Json]]:
    """Return what was told of a task to its end, one of each status in a row, and the last that was said of it."""

    def is_it(heard: Heard) -> bool:
        return heard.method == method and heard.params.get("taskId") == task_id

    await peer.until(lambda heard: is_it(heard) and heard.params["status"] in TERMINAL)
    told: list[tuple[str, Json]] = []
    for heard in filter(is_it, peer.heard):
        if told and told[-1][0] == heard.params["status"]:
            told.pop()
        told.append((heard.params["status"], heard.params))
    return told


def _course(statuses: Iterable[str]) -> list[str]:
    """Return the statuses but those that pass too soon for a stream to tell of them all: it tells what is."""
    first, *rest = statuses
    return [first, *(status for status in rest if status != "working")]


def _without(given: Json, *names: str) -> Json:
    return {name: value for name, value in given.items() if name not in names}


EXCHANGES: dict[Way, Callable[[Cell, Peer, Peer], Awaitable[None]]] = {
    "plain": plain,
    "plain, not a task": plain_but_no_task,
    "task 2025": task_2025,
    "task 2026": task_2026,
    "held": held_call,
    "refused": refused,
}
