"""Lists of tasks, and their cursors in other hands."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.requirements.marks import requirement
from tests.security.attacks import MARK
from tests.security.callers import Caller, Json, Modern, Older, Reply
from tests.security.conftest import Become

pytestmark = pytest.mark.slow

BAD_CURSOR = "Invalid cursor; list from the beginning, without one"
LISTS: dict[str, tuple[type[Caller], bool]] = {
    "2025-11-25 tasks/list": (Older, True),
    "2025-11-25 list_tasks": (Older, False),
    "2026-07-28 list_tasks": (Modern, False),
}
"""Who lists, and whether by a method or by a tool."""
ALL = pytest.mark.parametrize("name", LISTS)


def _page(reply: Reply) -> Json:
    return reply.result.get("structuredContent", reply.result)


def _is_refused(reply: Reply) -> None:
    assert reply.error in ({"code": -32602, "message": BAD_CURSOR}, {"text": BAD_CURSOR})
    assert MARK not in reply.body.decode()


@pytest.fixture(scope="module")
def owner(become: Become) -> tuple[str, list[str]]:
    """Somebody with more tasks than there are on a page."""
    caller = become(Modern, user="owner of many")
    return "owner of many", [caller.hand_in("keep", secret=f"{MARK} {number}") for number in range(60)]


def _list(become: Become, name: str, cursor: str | None = None, **claims: Any) -> Reply:
    kind, is_method = LISTS[name]
    caller: Caller = become(kind, **claims)
    given = {} if cursor is None else {"cursor": cursor}
    return caller.ask("tasks/list", **given) if is_method else caller.use("list_tasks", **given)


@requirement("F-031", "F-056", "E-036", "E-039", "G-010")
@ALL
def test_a_list_has_all_tasks_of_its_reader_and_nobody_elses(
    become: Become, owner: tuple[str, list[str]], name: str
) -> None:
    user, ids = owner
    first = _page(_list(become, name, user=user))
    second = _page(_list(become, name, first["nextCursor"], user=user))
    assert [task["taskId"] for task in (*first["tasks"], *second["tasks"])] == ids[::-1]
    assert "nextCursor" not in second
    assert _page(_list(become, name, user="one without any"))["tasks"] == []


@requirement("E-049", "R-28", "G-011")
@ALL
@pytest.mark.parametrize("who", [{"user": "bob"}, {"client": "other"}, {"user": None}], ids=str)
def test_a_cursor_is_of_use_to_its_owner_only(
    become: Become, owner: tuple[str, list[str]], name: str, who: dict[str, str | None]
) -> None:
    user, _ = owner
    cursor = _page(_list(become, name, user=user))["nextCursor"]
    _is_refused(_list(become, name, cursor, **{"user": user, **who}))
    assert len(_page(_list(become, name, cursor, user=user))["tasks"]) == 10


def _flipped(cursor: str) -> str:
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[len(raw) // 2] ^= 1
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


CHANGES: dict[str, Callable[[str], str]] = {
    "empty": lambda cursor: "",
    "a number": lambda cursor: "50",
    "cut": lambda cursor: cursor[:-4],
    "longer": lambda cursor: cursor + "AAAA",
    "padded": lambda cursor: cursor + "=",
    "changed in one bit": _flipped,
    "in capitals": str.upper,
    "twice": lambda cursor: cursor * 2,
    "very long": lambda cursor: cursor * 1000,
    "not ascii": lambda cursor: cursor + "ä",
    "nested without end": lambda cursor: base64.urlsafe_b64encode(b"\x91" * 5000).decode(),
}


@requirement("E-049", "R-28", "G-011")
@ALL
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_forged_cursor_is_refused(
    become: Become, owner: tuple[str, list[str]], name: str, change: Callable[[str], str]
) -> None:
    cursor = _page(_list(become, name, user=owner[0]))["nextCursor"]
    _is_refused(_list(become, name, change(cursor), user=owner[0]))


@requirement("S-070", "S-072", "C-019")
@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
def test_there_is_nothing_to_list_or_to_wait_for_in_2026(
    become: Become, owner: tuple[str, list[str]], method: str
) -> None:
    user, ids = owner
    refused = become(Modern, user=user).ask(method, taskId=ids[0])
    assert refused.error["code"] == -32601
