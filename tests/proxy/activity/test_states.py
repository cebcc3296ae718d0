"""The tables of states: what they allow, and that those of tasks are those of `advance`."""

from datetime import timedelta

import pytest
from msgspec import structs

from coatcheck import lifecycle
from coatcheck.dialects.words import EXPIRED
from coatcheck.errors import Refused
from coatcheck.lifecycle import Cancelled, Claimed, Completed, Failed, InputRequested, WorkerEvent, advance
from coatcheck.payload import encode
from coatcheck.proxy.states import (
    CALLS,
    ELICITATIONS,
    HAPPENINGS,
    SAMPLINGS,
    TASKS,
    RequestEvent,
    Table,
    settle,
    task_status,
)
from coatcheck.task import Failure, InputRequest, Status, Task
from coatcheck.testing.builders import NOW, a_task

TABLES = (ELICITATIONS, SAMPLINGS, TASKS, CALLS)
QUESTION = {"q": InputRequest(method="elicitation/create", params=encode({}))}


def name(table: Table) -> str:
    return table.name


def states(table: Table) -> set[str]:
    return {table.start} | {step.to for step in table.steps.values()}


def edges(table: Table) -> set[tuple[str, str]]:
    return {(state, step.to) for (state, _), step in table.steps.items()}


def held() -> Task:
    return advance(a_task(), Claimed("w", NOW + timedelta(seconds=9)), NOW)


@pytest.mark.parametrize("table", TABLES, ids=name)
def test_every_state_is_reached_and_has_an_end_or_a_way_on(table: Table) -> None:
    assert {state for state, _ in table.steps} <= states(table)
    assert table.ends.keys() == states(table) - {state for state, _ in table.steps}
    assert table.inner.keys() <= states(table)


@pytest.mark.parametrize("table", TABLES, ids=name)
def test_what_is_in_the_table_is_done_and_all_else_refused(table: Table) -> None:
    for state in states(table):
        for event in {event for _, event in table.steps} | {"nonsense"}:
            step = table.steps.get((state, event))
            if step:
                assert settle(table, state, event) == step.to
            else:
                with pytest.raises(Refused, match=f"The {table.name} is .*{event}"):
                    settle(table, state, event)


def test_p_013_an_elicitation_ends_in_one_of_five_ways() -> None:
    ends = {"accepted", "declined", "cancelled", "expired", "rejected"}
    assert edges(ELICITATIONS) == {("pending", end) for end in ends}


def test_p_033_an_answer_leads_where_its_action_says() -> None:
    assert settle(ELICITATIONS, "pending", "accept") == "accepted"
    assert settle(ELICITATIONS, "pending", "decline") == "declined"
    assert settle(ELICITATIONS, "pending", "cancel") == "cancelled"


def test_p_033_a_second_answer_is_refused_in_a_sentence() -> None:
    with pytest.raises(Refused, match=r"The elicitation is already accepted, so this cannot be done: decline\."):
        settle(ELICITATIONS, "accepted", RequestEvent.DECLINE)


def test_p_015_a_lost_connection_rejects_what_is_pending() -> None:
    for table in (ELICITATIONS, SAMPLINGS):
        assert settle(table, "pending", RequestEvent.DISCONNECT) == "rejected"


def test_p_016_a_sampling_request_ends_in_one_of_three_ways() -> None:
    assert edges(SAMPLINGS) == {("pending", end) for end in ("completed", "expired", "rejected")}


def test_p_009_p_010_a_task_has_five_states_and_leaves_only_working() -> None:
    ends = {"completed", "failed", "cancelled", "expired"}
    assert edges(TASKS) == {("working", end) for end in ends}
    assert settle(TASKS, "working", "disconnect") == "failed"
    assert settle(TASKS, "working", "expire") == "expired"


def test_p_010_every_event_of_the_lifecycle_was_tried() -> None:
    known = {kind for kind in vars(lifecycle).values() if isinstance(kind, type) and issubclass(kind, WorkerEvent)}
    known |= {lifecycle.Claimed, lifecycle.InputProvided, lifecycle.Cancelled, lifecycle.Stalled, lifecycle.WorkerLost}
    known -= {WorkerEvent, lifecycle.HandedOver}  # to a process of its own: the proxy's tasks have none
    assert {type(event) for event, _ in HAPPENINGS.values()} == known


def test_p_010_what_has_ended_refuses_whatever_happens() -> None:
    ended = (
        advance(held(), Completed(1, encode({})), NOW),
        advance(held(), Failed(1, Failure(message="no", code=EXPIRED)), NOW),
        advance(held(), Cancelled(), NOW),
    )
    for task in ended:
        for event, _ in HAPPENINGS.values():
            with pytest.raises(Refused):
                advance(task, event, NOW)


def test_p_037_a_task_that_asks_is_working() -> None:
    asking = advance(held(), InputRequested(1, QUESTION, timedelta(days=1)), NOW)
    assert asking.status is Status.INPUT_REQUIRED
    assert task_status(asking) == "working"
    assert not any(event in ("ask", "answer") for _, event in TASKS.steps)


def test_r_01_a_tool_error_is_a_result() -> None:
    assert task_status(advance(held(), Completed(1, encode({}), is_error=True), NOW)) == "completed"


def test_p_009_a_row_has_the_status_the_meta_tools_know() -> None:
    assert task_status(a_task()) == "working"
    assert task_status(held()) == "working"
    assert task_status(advance(held(), Completed(1, encode({})), NOW)) == "completed"
    assert task_status(advance(held(), Failed(1, Failure(message="no")), NOW)) == "failed"
    assert task_status(advance(held(), Failed(1, Failure(message="no", code=-32603)), NOW)) == "failed"
    assert task_status(advance(held(), Failed(1, Failure(message="late", code=EXPIRED)), NOW)) == "expired"
    assert task_status(advance(held(), Cancelled(), NOW)) == "cancelled"
    assert {task_status(structs.replace(a_task(), status=status)) for status in Status} <= states(TASKS)


def test_p_002_p_003_a_call_is_answered_or_becomes_a_task() -> None:
    assert settle(CALLS, "in_flight", "answer") == "returned_result"
    assert settle(CALLS, settle(CALLS, "in_flight", "promote"), "keep") == "task"
    assert CALLS.inner == {"task": TASKS}
