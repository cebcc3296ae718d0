"""Requests without a good token: refused before anything is read of them, in the same words, for every method."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.access.issuer import AUDIENCE, forged, hmac_signed, new_key
from tests.requirements.marks import requirement
from tests.security.attacks import ACCEPTED, MARK, Target
from tests.security.callers import OLD, Caller, Modern, Older
from tests.security.served import Served

pytestmark = pytest.mark.slow

METADATA = "https://books.example/.well-known/oauth-protected-resource/mcp"
FORGER = new_key()
NOW = int(time.time())
BAD: dict[str, Callable[[Served], str | None]] = {
    "no token": lambda served: None,
    "a token of dots": lambda served: "Bearer ..",
    "only the scheme": lambda served: "Bearer",
    "another scheme": lambda served: f"Basic {served.token()}",
    "no scheme": lambda served: served.token(),
    "words": lambda served: "Bearer let me in",
    "a list of tokens": lambda served: f"Bearer {served.token()}, {served.token()}",
    "a token and more": lambda served: f"Bearer {served.token()} x",
    "an expired token": lambda served: f"Bearer {served.token(exp=NOW - 1)}",
    "a token from the future": lambda served: f"Bearer {served.token(nbf=NOW + 3600)}",
    "a token without end": lambda served: f"Bearer {served.token(exp=None)}",
    "a token of another issuer": lambda served: f"Bearer {served.token(iss='https://issuer.example')}",
    "a token of no issuer": lambda served: f"Bearer {served.token(iss=None)}",
    "a token for another server": lambda served: f"Bearer {served.token(aud='https://other.example/mcp')}",
    "a token for nobody": lambda served: f"Bearer {served.token(aud=None)}",
    "a token of nobody": lambda served: f"Bearer {served.token(client=None, user=None)}",
    "an ID token": lambda served: f"Bearer {served.token(at_hash='x')}",
    "a forged token": lambda served: f"Bearer {served.issuer.token(FORGER)}",
    "an unsigned token": lambda served: f"Bearer {forged({'alg': 'none'}, served.issuer.claims())}",
    "a token of HMAC": lambda served: f"Bearer {hmac_signed(served.issuer.claims(), served.issuer.key.pem)}",
}
TASK = "tasks/get"


def requests(target: Target) -> dict[tuple[type[Caller], str], dict[str, Any]]:
    """Return every method there is, with what ann would send."""
    one = {"taskId": target.task_id}
    call = {"name": "keep", "arguments": {"secret": MARK}}
    tickets = {
        (kind, f"tools/call {tool}"): {
            "name": tool,
            "arguments": {"task_id": target.task_id} if tool != "list_tasks" else {},
        }
        for kind in (Modern, Older)
        for tool in ("get_task", "wait_task", "answer_task", "cancel_task", "list_tasks")
    }
    hello = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {
        (Modern, "server/discover"): {},
        (Modern, "tools/list"): {},
        (Modern, "tools/call"): call,
        (Modern, "tasks/get"): one,
        (Modern, "tasks/update"): {**one, "inputResponses": {target.key: ACCEPTED}},
        (Modern, "tasks/cancel"): one,
        (Modern, "subscriptions/listen"): {"notifications": {"taskIds": [target.task_id]}},
        (Older, "initialize"): hello,
        (Older, "tools/list"): {},
        (Older, "tools/call"): {**call, "task": {}},
        (Older, "tasks/get"): one,
        (Older, "tasks/result"): one,
        (Older, "tasks/list"): {},
        (Older, "tasks/cancel"): one,
        (Modern, "tools/call list_tasks"): {"name": "list_tasks", "arguments": {}},
        (Older, "tools/call list_tasks"): {"name": "list_tasks", "arguments": {}},
        **tickets,
    }


METHODS = [(kind, method) for kind, method in requests(Target("", ""))]


@requirement("S-069", "F-062", "G-014", "E-036")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("kind", "method"), METHODS, ids=lambda one: one if isinstance(one, str) else one.generation)
def test_a_request_without_a_good_token_is_refused_and_changes_nothing(
    private: Served, ann: Modern, older_ann: Older, target: Target, kind: type[Caller], method: str, bad: str
) -> None:
    before = (ann.get(target.task_id), older_ann.ask("tasks/list").result)
    owner = ann if kind is Modern else older_ann  # whose session it is, and whose task, is known to the attacker
    params = requests(target)[kind, method]
    body = owner.body(method.partition(" ")[0], params)
    refused = owner.post(body, authorization=BAD[bad](private))
    assert refused.status == 401
    assert json.loads(refused.body) == {"error": "invalid_token", "error_description": "Authentication required"}
    said = dict(refused.headers)
    assert said.pop("www-authenticate") == (
        f'Bearer error="invalid_token", error_description="Authentication required", resource_metadata="{METADATA}"'
    )
    assert set(said) <= {"content-length", "content-type", "server"}
    assert (ann.get(target.task_id), older_ann.ask("tasks/list").result) == before


@requirement("S-069")
@pytest.mark.parametrize("scope", [None, "", "book", "books2", "BOOKS", "books,other"])
def test_a_token_without_the_scope_is_told_so(private: Served, scope: str | None) -> None:
    with closing(Modern(private.url, private.token(scope=scope))) as caller:
        refused = caller.ask("tools/list")
    assert refused.status == 403
    assert json.loads(refused.body) == {"error": "insufficient_scope", "error_description": "Required scope: books"}


@requirement("S-069", "G-014")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/list", "tools/list"])
def test_a_session_is_of_no_use_to_who_did_not_begin_it(
    private: Served, older_ann: Older, target: Target, method: str
) -> None:
    params = {"taskId": target.task_id} if method == TASK else {}
    bob = private.token(user="bob")
    with closing(Older(private.url, bob, session=older_ann.session)) as thief:
        refused = thief.ask(method, **params)
    assert (refused.status, refused.message["error"]["message"]) == (404, "Session not found")
    with closing(Older(private.url, bob, session="0" * 32)) as guesser:
        assert guesser.ask(method, **params) == refused


@requirement("S-069", "G-014")
def test_a_session_cannot_be_ended_by_who_did_not_begin_it(private: Served, older_ann: Older, target: Target) -> None:
    for token, status in ((private.token(user="bob"), 404), (private.token(exp=NOW - 1), 401), (None, 401)):
        given = {"mcp-session-id": older_ann.session, "mcp-protocol-version": OLD}
        more = {"authorization": f"Bearer {token}"} if token else {}
        assert older_ann.http.delete(private.url, headers={**given, **more}).status_code == status
    assert older_ann.get(target.task_id)["taskId"] == target.task_id


@requirement("S-069")
def test_what_goes_on_in_a_session_cannot_be_overheard(private: Served, older_ann: Older) -> None:
    for token, status in ((private.token(user="bob"), 404), (private.token(exp=NOW - 1), 401), (None, 401)):
        given = {"mcp-session-id": older_ann.session, "accept": "text/event-stream", "mcp-protocol-version": OLD}
        more = {"authorization": f"Bearer {token}"} if token else {}
        with older_ann.http.stream("GET", private.url, headers={**given, **more}) as answer:
            assert answer.status_code == status


def test_where_to_get_a_token_is_told_to_everyone(private: Served) -> None:
    with closing(Modern(private.url)) as caller:
        where = private.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp"
        said = caller.http.get(where).json()
    assert (said["resource"], said["authorization_servers"]) == (AUDIENCE, [private.issuer.name])
    assert said["scopes_supported"] == ["books"]


@requirement("S-069")
def test_a_token_that_expires_is_good_for_nothing_a_moment_later(private: Served) -> None:
    expires = int(time.time()) + 2
    with closing(Modern(private.url, private.token(exp=expires))) as caller:
        while (answer := caller.ask("tools/list")).status == 200:
            pass
    assert answer.status == 401
    assert time.time() >= expires
