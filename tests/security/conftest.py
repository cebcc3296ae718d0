"""The servers under attack, and what must not be found in their logs once all is over."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.requirements.marks import pytest_configure
from tests.security.attacks import MARK, Target
from tests.security.callers import Caller, Modern, Older
from tests.security.served import Served, serving

__all__ = ["pytest_configure"]

Become = Callable[..., Any]


@pytest.fixture(scope="session")
def private(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """A server that knows its callers by their tokens."""
    with serving("private", tmp_path_factory.mktemp("private")) as served:
        yield served
        check_logs(served)


@pytest.fixture(scope="session")
def anyones(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """A server that asks nobody who they are."""
    with serving("anyones", tmp_path_factory.mktemp("anyones")) as served:
        yield served
        check_logs(served)


def check_logs(served: Served) -> None:
    """Whatever was tried: nothing that callers said or were told is in the log, nor what opens a door."""
    said = served.logs()
    assert said
    signatures = [token.rpartition(".")[2] for token in served.issuer.signed]
    assert [line for line in said.splitlines() if MARK in line or "Traceback" in line] == []
    assert [signature for signature in signatures if signature in said] == []


@pytest.fixture(scope="session")
def become(private: Served) -> Generator[Become]:
    """Be somebody, in one of the generations; in 2025-11-25 always in the same session."""
    known: dict[tuple[Any, ...], Caller] = {}

    def caller(kind: type[Caller] = Modern, token: str | None = None, **claims: Any) -> Caller:
        key = (kind, token, *sorted((name, str(value)) for name, value in claims.items()))
        if key not in known:
            known[key] = kind(private.url, token or private.token(**claims))
        return known[key]

    yield caller
    for one in known.values():
        one.close()


@pytest.fixture(scope="session")
def ann(become: Become) -> Modern:
    return become(Modern)


@pytest.fixture(scope="session")
def older_ann(become: Become) -> Older:
    return become(Older)


@pytest.fixture(scope="session")
def target(ann: Modern) -> Generator[Target]:
    """A task of ann's that asks something."""
    task_id = ann.hand_in("ask", secret=f"{MARK} of ann")
    (key,) = ann.until(task_id, "input_required")["inputRequests"]
    yield Target(task_id, key)
    ann.ask("tasks/cancel", taskId=task_id)


@pytest.fixture(scope="session")
def unknown() -> Target:
    """An id nobody has."""
    return Target("KvSHdwKq-goaDYeR5bLD8ZU-ZR-vsO0bFQtB", "714120f9cb3b0d7f#1")


@pytest.fixture(scope="session")
def expired(ann: Modern, older_ann: Older) -> Target:
    """The id of a task of ann's whose time is over."""
    created = older_ann.ask("tools/call", name="ask", arguments={"secret": MARK}, task={"ttl": 1}).result
    task_id = created["task"]["taskId"]
    while "result" in ann.ask("tasks/get", taskId=task_id).message:
        pass
    return Target(task_id, "714120f9cb3b0d7f#1")
