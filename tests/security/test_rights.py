"""Rules by roles and arguments, over both generations: who may call, read, use and see what, before there is a task."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.requirements.marks import requirement
from tests.security.callers import Caller, Json, Modern, Older
from tests.security.conftest import Become
from tests.security.served import Served

pytestmark = pytest.mark.slow

KINDS = pytest.mark.parametrize("kind", [Modern, Older], ids=["2026-07-28", "2025-11-25"])
FORBIDDEN = -31403
Claims = dict[str, Any]

CALLS: dict[str, tuple[Claims, str, Json, bool]] = {
    "nobody's tool, by anybody": ({}, "keep", {"secret": "x"}, True),
    "an administrator's, by one": ({"roles": ["admin"]}, "administer", {"account": "x"}, True),
    "an administrator's, by one of several roles": ({"roles": ["a", "admin"]}, "administer", {"account": "x"}, True),
    "an administrator's, by another": ({"roles": ["payer"]}, "administer", {"account": "x"}, False),
    "an administrator's, by one without roles": ({}, "administer", {"account": "x"}, False),
    "an administrator's, by ADMIN": ({"roles": ["ADMIN"]}, "administer", {"account": "x"}, False),
    "an administrator's, by a role with more in it": (
        {"roles": ["administrator"]},
        "administer",
        {"account": "x"},
        False,
    ),
    "an administrator's, by a scope of that name": ({"scope": "books admin"}, "administer", {"account": "x"}, False),
    "an administrator's, by a claim of that name": ({"admin": True}, "administer", {"account": "x"}, False),
    "an administrator's, by roles that are an object": ({"roles": {"admin": 1}}, "administer", {"account": "x"}, False),
    "an administrator's, by nested roles": ({"roles": [["admin"]]}, "administer", {"account": "x"}, False),
    "a payer's, of its own account": ({"roles": ["payer"]}, "pay", {"account": "ann"}, True),
    "a payer's, of another account": ({"roles": ["payer"]}, "pay", {"account": "bob"}, False),
    "a payer's, of an account like its own": ({"roles": ["payer"]}, "pay", {"account": "ANN"}, False),
    "a payer's, of a list with its own": ({"roles": ["payer"]}, "pay", {"account": ["ann"]}, False),
    "a payer's, of its own, by no payer": ({}, "pay", {"account": "ann"}, False),
    "a payer's, of its own, by an administrator": ({"roles": ["admin"]}, "pay", {"account": "ann"}, False),
    "a payer's, with an account of another added": (
        {"roles": ["payer"]},
        "pay",
        {"account": "bob", "account ": "ann"},
        False,
    ),
}


@requirement("F-057", "F-061", "F-062")
@KINDS
@pytest.mark.parametrize("as_task", [True, False], ids=["a task", "a plain call"])
@pytest.mark.parametrize(("claims", "tool", "arguments", "is_allowed"), CALLS.values(), ids=list(CALLS))
def test_a_call_is_allowed_or_refused_before_there_is_a_task(
    become: Become, kind: type[Caller], as_task: bool, claims: Claims, tool: str, arguments: Json, is_allowed: bool
) -> None:
    caller: Caller = become(kind, client="rights", **claims)
    before = _tasks(caller)
    answer = (caller.call if as_task else caller.use)(tool, **arguments)
    if is_allowed:
        assert "result" in answer.message
        assert not answer.message["result"].get("isError")
        assert not as_task or set(_tasks(caller)) - set(before)
        return
    if arguments == {"account": ["ann"]}:  # which is no account at all, as the SDK says
        assert "paid" not in answer.body.decode()
    else:
        words = f"You may not use the tool '{tool}'; ask whoever runs this server for the right to."
        assert answer.error == {"code": FORBIDDEN, "message": words}
    assert set(_tasks(caller)) <= set(before)


def _tasks(caller: Caller) -> list[str]:
    """Return the ids of all tasks of this caller, by the tool that lists them."""
    ids: list[str] = []
    cursor: Json = {}
    while True:
        page = caller.use("list_tasks", **cursor).result["structuredContent"]
        ids += [task["taskId"] for task in page["tasks"]]
        if "nextCursor" not in page:
            return ids
        cursor = {"cursor": page["nextCursor"]}


READS: dict[str, tuple[Claims, str, Json, bool]] = {
    "a public resource": ({}, "resources/read", {"uri": "books://public"}, True),
    "an administrator's resource, by one": ({"roles": ["admin"]}, "resources/read", {"uri": "books://ledger"}, True),
    "an administrator's resource": ({}, "resources/read", {"uri": "books://ledger"}, False),
    "one's own of a template": ({}, "resources/read", {"uri": "books://of/ann"}, True),
    "another's of a template": ({}, "resources/read", {"uri": "books://of/bob"}, False),
    "another's of a template, encoded": ({}, "resources/read", {"uri": "books://of/%62ob"}, False),
    "a public prompt": ({}, "prompts/get", {"name": "greet"}, True),
    "an administrator's prompt, by one": ({"roles": ["admin"]}, "prompts/get", {"name": "instruct"}, True),
    "an administrator's prompt": ({}, "prompts/get", {"name": "instruct"}, False),
}


@requirement("F-062", "F-061")
@KINDS
@pytest.mark.parametrize(("claims", "method", "params", "is_allowed"), READS.values(), ids=list(READS))
def test_resources_and_prompts_have_rules_too(
    become: Become, kind: type[Caller], claims: Claims, method: str, params: Json, is_allowed: bool
) -> None:
    answer = become(kind, client="rights", **claims).ask(method, **params)
    if is_allowed:
        assert "for " in json.dumps(answer.result)
    else:
        what = f"resource '{params['uri']}'" if "uri" in params else f"prompt '{params['name']}'"
        words = f"You may not use the {what}; ask whoever runs this server for the right to."
        assert answer.error == {"code": FORBIDDEN, "message": words}


TICKET_TOOLS = {"get_task", "wait_task", "answer_task", "cancel_task", "list_tasks"}
LISTS: dict[str, tuple[str, str, Callable[[Json], str], set[str]]] = {
    "tools": ("tools/list", "tools", lambda item: item["name"], {"administer", "pay"}),
    "resources": ("resources/list", "resources", lambda item: item["uri"], {"books://ledger"}),
    "prompts": ("prompts/list", "prompts", lambda item: item["name"], {"instruct"}),
}


@requirement("F-062")
@KINDS
@pytest.mark.parametrize(("method", "where", "name", "hidden"), LISTS.values(), ids=list(LISTS))
def test_lists_show_what_their_reader_may_use(
    become: Become, kind: type[Caller], method: str, where: str, name: Callable[[Json], str], hidden: set[str]
) -> None:
    allowed, other = (
        # The tools that take tickets are shown to who was never seen to know tasks.
        {name(item) for item in become(kind, client="rights", **claims).ask(method).result[where]} - TICKET_TOOLS
        for claims in ({"roles": ["admin", "payer"]}, {})
    )
    assert allowed - other == hidden
    assert other < allowed


@requirement("F-062")
@KINDS
def test_what_is_not_there_and_what_is_forbidden_are_told_apart_as_little_as_lists_do(
    become: Become, kind: type[Caller]
) -> None:
    caller = become(kind, client="rights")
    missing = caller.call("no such tool")
    assert "no such tool" in missing.body.decode()
    assert "administer" not in missing.body.decode()


@requirement("F-059", "F-061")
@KINDS
@pytest.mark.parametrize("as_task", [True, False], ids=["a task", "a plain call"])
def test_too_many_calls_are_refused_and_make_no_task(private: Served, kind: type[Caller], as_task: bool) -> None:
    who = f"hasty {kind.generation} {as_task}"
    with closing(kind(private.url, private.token(user=who))) as caller:
        say = caller.call if as_task else caller.use
        assert ["result" in say("seldom").message for _ in range(2)] == [True, True]
        before = _tasks(caller)
        error = say("seldom").error
        assert error["code"] == -31429
        assert error["message"].startswith("Tool 'seldom' may be called 2 times a day; try again in ")
        assert set(_tasks(caller)) <= set(before)  # that of a held call is gone by itself
    with closing(kind(private.url, private.token(user=f"patient {who}"))) as other:
        assert "result" in other.call("seldom").message
