"""Tasks of others: refused like unknown ones, to the byte, whoever asks, whatever for, in both generations."""

from __future__ import annotations

import base64
from contextlib import closing
from typing import Any

import pytest

from tests.requirements.marks import requirement
from tests.security.attacks import (
    MARK,
    STRANGERS,
    TRIES,
    Target,
    check_refused,
    named,
    stranger,
)
from tests.security.callers import Caller, Json, Modern, Older
from tests.security.conftest import Become
from tests.security.served import Served

pytestmark = pytest.mark.slow

KINDS = pytest.mark.parametrize("kind", [Modern, Older], ids=["2026-07-28", "2025-11-25"])
EVERYBODY = pytest.mark.parametrize("who", STRANGERS)


@requirement("R-10", "R-27", "E-036", "E-037", "E-038", "E-039", "F-061", "G-014", "ER-3", "S-045", "S-051", "S-061")
@EVERYBODY
@pytest.mark.parametrize("attempt", TRIES, ids=named)
def test_a_stranger_cannot_tell_a_foreign_task_from_one_that_is_not_there(
    private: Served,
    become: Become,
    ann: Modern,
    target: Target,
    unknown: Target,
    expired: Target,
    who: str,
    attempt: tuple[type[Caller], str],
) -> None:
    before = ann.get(target.task_id)
    caller = become(attempt[0], token=stranger_token(private, who))
    foreign, not_there, over = (TRIES[attempt](caller, one) for one in (target, unknown, expired))
    check_refused(attempt, foreign)
    assert foreign == not_there == over
    assert ann.get(target.task_id) == before


_tokens: dict[tuple[int, str], str] = {}


def stranger_token(served: Served, who: str) -> str:
    """Return the same token for the same stranger, so that a session may be kept."""
    return _tokens.setdefault((served.port, who), stranger(who, served))


@requirement("R-15", "R-27", "S-064")
@pytest.mark.parametrize("attempt", TRIES, ids=named)
def test_nor_can_the_owner_tell_an_expired_task_from_one_that_never_was(
    become: Become, unknown: Target, expired: Target, attempt: tuple[type[Caller], str]
) -> None:
    caller = become(attempt[0])
    over, not_there = (TRIES[attempt](caller, one) for one in (expired, unknown))
    check_refused(attempt, over)
    assert over == not_there


GUESSES: dict[str, Any] = {
    "empty": "",
    "a blank": " ",
    "a path": "../../etc/passwd",
    "a query": "x' OR '1'='1",
    "a pattern": "%",
    "a star": "*",
    "a zero": "x\0y",
    "very long": "x" * 10_000,
    "a lone half of a character": "\ud800",
    "a line break": "x\r\nx-injected: 1",
}


@requirement("R-27", "S-061", "S-068")
@KINDS
@pytest.mark.parametrize("guess", GUESSES.values(), ids=list(GUESSES))
def test_a_guess_finds_nothing_and_breaks_nothing(become: Become, kind: type[Caller], guess: str) -> None:
    caller = become(kind, user="bob")
    refused = caller.use("get_task", task_id=guess)
    assert refused.status in (200, 400)
    assert "s3cret" not in refused.body.decode()
    body = caller.body("tasks/get", {"taskId": guess})
    encoded = None if kind is Older else "=?base64?" + _base64(guess) + "?="
    answer = caller.post(body, mcp_name=encoded)
    assert answer.error["code"] in (-32602, -32020, -32600, -32700)
    assert "Traceback" not in answer.body.decode()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


@requirement("R-27", "S-068")
@pytest.mark.parametrize("kind", [Modern, Older], ids=["2026-07-28", "2025-11-25"])
def test_a_neighbour_of_a_known_id_is_not_found(
    become: Become, ann: Modern, target: Target, kind: type[Caller]
) -> None:
    """Ids of one process share a prefix; the rest of one says nothing about the next."""
    own = ann.hand_in("keep", secret=MARK)
    assert own != target.task_id
    caller = become(kind)
    for number in range(64):
        guess = own[:-1] + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[number]
        if guess != own:
            check_refused((kind, "tasks/get"), caller.ask("tasks/get", taskId=guess))


@requirement("S-054", "ER-3", "R-18", "E-036")
@EVERYBODY
def test_a_stranger_who_listens_is_told_of_its_own_tasks_only(
    private: Served, become: Become, ann: Modern, who: str
) -> None:
    other = become(Modern, token=stranger_token(private, who))
    foreign, own = ann.hand_in("endless", secret=f"{MARK} heard"), other.hand_in("endless", secret="own")
    with other.stream("subscriptions/listen", notifications={"taskIds": [foreign, own]}) as told:
        assert next(told)["params"]["notifications"]["taskIds"] == [own]
        ann.ask("tasks/cancel", taskId=foreign)
        other.ask("tasks/cancel", taskId=own)
        heard: list[Json] = []
        for message in told:
            heard.append(message)
            if message.get("params", {}).get("status") == "cancelled":
                break
    assert {message["params"]["taskId"] for message in heard} == {own}
    assert MARK not in str(heard)


@requirement("X-08", "E-039")
@KINDS
def test_a_key_of_idempotency_is_its_owners(become: Become, ann: Modern, kind: type[Caller]) -> None:
    meta = {"coatcheck/idempotencyKey": "the same"}
    call = {"name": "keep", "arguments": {"secret": f"{MARK} kept"}, "_meta": meta}
    more: Json = {"task": {}} if kind is Older else {}
    mine, again = (become(kind).ask("tools/call", **call, **more).result for _ in range(2))
    theirs = become(kind, user="bob").ask("tools/call", **call, **more).result
    ids = [found.get("task", found)["taskId"] for found in (mine, again, theirs)]
    assert ids[0] == ids[1] != ids[2]
    other = {**call, "arguments": {"secret": "of bob"}}
    refused = become(kind, user="bob").ask("tools/call", **other, **more)
    assert refused.error["code"] == -32602
    assert MARK not in refused.body.decode()


@requirement("R-10", "X-01")
def test_an_owner_finds_its_task_in_any_session_and_either_generation(become: Become, private: Served) -> None:
    with closing(Older(private.url, private.token())) as first, closing(Older(private.url, private.token())) as second:
        task_id = first.hand_in("endless", secret=MARK)
        assert first.session != second.session
        assert {caller.get(task_id)["status"] for caller in (first, second, become(Modern))} == {"working"}
        second.ask("tasks/cancel", taskId=task_id)
