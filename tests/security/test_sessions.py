"""Where nobody shows a token: sessions are kept apart, and a task without one is its id's."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from queue import Queue
from typing import Any

import httpx2
import pytest

from tests.requirements.marks import requirement
from tests.security.attacks import MARK, NOT_FOUND, TRIES, Target, check_refused, named
from tests.security.callers import OLD, PATIENCE, Caller, Json, Modern, Older, events
from tests.security.served import Served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one(anyones: Served) -> Generator[Older]:
    with closing(Older(anyones.url)) as caller:
        yield caller


@pytest.fixture(scope="module")
def other(anyones: Served) -> Generator[Older]:
    with closing(Older(anyones.url)) as caller:
        yield caller


@pytest.fixture(scope="module")
def modern(anyones: Served) -> Generator[Modern]:
    with closing(Modern(anyones.url)) as caller:
        yield caller


@pytest.fixture(scope="module")
def asked(one: Older) -> Generator[Target]:
    """A task of one session that asks something."""
    task_id = one.hand_in("ask", secret=f"{MARK} of a session")
    one.until(task_id, "input_required")
    yield Target(task_id, "unknown#1")
    one.ask("tasks/cancel", taskId=task_id)


@requirement("F-056", "R-10", "R-27", "E-036", "E-037")
@pytest.mark.parametrize("attempt", TRIES, ids=named)
def test_a_task_of_another_session_is_refused_like_an_unknown_one(
    one: Older,
    other: Older,
    modern: Modern,
    asked: Target,
    unknown: Target,
    attempt: tuple[type[Caller], str],
) -> None:
    before = one.get(asked.task_id)
    caller = other if attempt[0] is Older else modern
    foreign, not_there = (TRIES[attempt](caller, target) for target in (asked, unknown))
    check_refused(attempt, foreign)
    assert foreign == not_there
    assert one.get(asked.task_id) == before


@requirement("F-056", "F-031")
def test_a_session_lists_its_own_tasks_only(one: Older, other: Older, asked: Target) -> None:
    assert asked.task_id in [task["taskId"] for task in one.ask("tasks/list").result["tasks"]]
    assert asked.task_id not in [task["taskId"] for task in other.ask("tasks/list").result["tasks"]]
    assert asked.task_id not in str(other.use("list_tasks").result)


@requirement("F-056", "R-10")
@pytest.mark.parametrize("session", ["0" * 32, "x", "../x"])
def test_a_session_that_is_not_there_is_told_so(anyones: Served, asked: Target, session: str) -> None:
    with closing(Older(anyones.url, session=session)) as guesser:
        refused = guesser.ask("tasks/get", taskId=asked.task_id)
    assert (refused.status, refused.message["error"]["message"]) == (404, "Session not found")


@requirement("F-056", "R-10")
def test_a_session_that_has_ended_takes_its_tasks_with_it(anyones: Served, unknown: Target) -> None:
    with closing(Older(anyones.url)) as caller, closing(Older(anyones.url)) as heir:
        task_id = caller.hand_in("endless", secret=MARK)
        given = {"mcp-session-id": caller.session, "mcp-protocol-version": OLD}
        assert caller.http.delete(anyones.url, headers=given).status_code == 200
        assert caller.ask("tasks/get", taskId=task_id).status == 404
        lost, not_there = (heir.ask("tasks/get", taskId=one) for one in (task_id, unknown.task_id))
        assert lost == not_there
        assert lost.error["message"] == NOT_FOUND


@requirement("R-10", "T-07", "S-072")
@pytest.mark.parametrize("claims", ["a session", "an owner"])
def test_a_request_of_2026_gains_nothing_by_headers_of_2025(
    one: Older, modern: Modern, asked: Target, unknown: Target, claims: str
) -> None:
    more = {"mcp_session_id": one.session} if claims == "a session" else {"x_forwarded_user": "ann"}
    foreign, not_there = (
        modern.post(modern.body("tasks/get", {"taskId": target.task_id}), **more) for target in (asked, unknown)
    )
    check_refused((Modern, "tasks/get"), foreign)
    assert foreign == not_there


@requirement("R-10", "T-07")
def test_a_task_without_a_session_is_for_who_knows_its_id_but_for_no_session(
    anyones: Served, one: Older, modern: Modern
) -> None:
    task_id = modern.hand_in("endless", secret="public")
    with closing(Modern(anyones.url)) as friend:
        assert friend.get(task_id)["status"] == "working"
    check_refused((Older, "tasks/get"), one.ask("tasks/get", taskId=task_id))
    refused = modern.use("list_tasks")
    assert task_id not in refused.body.decode()
    modern.ask("tasks/cancel", taskId=task_id)


class Waiting:
    """Somebody who waits in `tasks/result`, and hears what the task asks."""

    def __init__(self, caller: Older, task_id: str) -> None:
        self.heard: Queue[Json] = Queue()
        self._caller = caller
        body = {**caller.body("tasks/result", {"taskId": task_id}), "id": "waiting"}
        self._thread = threading.Thread(target=self._wait, args=(body,))
        self._thread.start()

    def _wait(self, body: Json) -> None:
        given = {**self._caller.headers(body), **self._caller.more}
        with (
            httpx2.Client(timeout=PATIENCE) as http,
            http.stream("POST", self._caller.url, json=body, headers=given) as on,
        ):
            for message in events(on.iter_lines()):
                self.heard.put(message)

    def next(self) -> Json:
        return self.heard.get(timeout=PATIENCE)

    def end(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def _reply(caller: Older, question: Any, name: str) -> None:
    content = {"action": "accept", "content": {"name": name}}
    assert caller.post({"jsonrpc": "2.0", "id": question, "result": content}).status == 202


@requirement("F-062", "E-026", "R-20", "F-056")
@pytest.mark.parametrize("known", ["no token", "a token"])
def test_a_question_is_answered_by_who_was_asked_and_by_nobody_else(
    private: Served, anyones: Served, known: str
) -> None:
    served = private if known == "a token" else anyones
    tokens = (private.token(), private.token(user="bob")) if served is private else (None, None)
    with closing(Older(served.url, tokens[0])) as victim, closing(Older(served.url, tokens[1])) as hijacker:
        task_id = victim.hand_in("ask", secret=f"{MARK} asked")
        victim.until(task_id, "input_required")
        waiting = Waiting(victim, task_id)
        question = waiting.next()
        assert question["method"] == "elicitation/create"
        # The hijacker knows the question's id, asks for the task, and answers in a session of its own.
        assert hijacker.ask("tasks/result", taskId=task_id).error["message"] == NOT_FOUND
        _reply(hijacker, question["id"], "mallory")
        _reply(hijacker, str(question["id"]), "mallory")
        answer = hijacker.use("answer_task", task_id=task_id, content={"name": "mallory"})
        assert answer.error["text"] == NOT_FOUND
        assert victim.get(task_id)["status"] == "input_required"
        _reply(victim, question["id"], "ann")
        result = waiting.next()
        waiting.end()
    assert result["result"]["content"][0]["text"] == "ann"


@requirement("F-056", "S-069")
def test_an_answer_into_another_session_is_refused(private: Served) -> None:
    with closing(Older(private.url, private.token())) as victim:
        task_id = victim.hand_in("ask", secret=f"{MARK} asked")
        victim.until(task_id, "input_required")
        waiting = Waiting(victim, task_id)
        question = waiting.next()
        for token, status in ((private.token(user="bob"), 404), (None, 401)):
            with closing(Older(private.url, token, session=victim.session)) as hijacker:
                answer = {"action": "accept", "content": {"name": "mallory"}}
                assert hijacker.post({"jsonrpc": "2.0", "id": question["id"], "result": answer}).status == status
        assert victim.get(task_id)["status"] == "input_required"
        _reply(victim, question["id"], "ann")
        assert waiting.next()["result"]["content"][0]["text"] == "ann"
        waiting.end()


@requirement("F-056", "R-18")
def test_a_session_is_not_told_of_the_tasks_of_another(anyones: Served) -> None:
    with closing(Older(anyones.url)) as one, closing(Older(anyones.url)) as other:
        given = {**other.headers({}), **other.more, "accept": "text/event-stream"}
        del given["content-type"]
        with httpx2.Client(timeout=PATIENCE) as http, http.stream("GET", anyones.url, headers=given) as told:
            assert told.status_code == 200
            foreign, own = one.hand_in("endless", secret=MARK), other.hand_in("endless", secret="own")
            one.ask("tasks/cancel", taskId=foreign)
            other.ask("tasks/cancel", taskId=own)
            for message in events(told.iter_lines()):
                assert message["params"]["taskId"] == own
                assert MARK not in str(message)
                if message["params"].get("status") == "cancelled":
                    break
