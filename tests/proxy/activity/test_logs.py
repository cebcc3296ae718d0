"""Rings of what servers said, read on request."""

import pytest

from coatcheck.errors import InvalidArgument
from coatcheck.proxy.activity.logs import LEVELS, Logs, Notifications
from tests.clock import Clock


def a_log_of_every_level() -> Logs:
    logs = Logs(clock=Clock())
    for level in LEVELS:
        logs.add("s", level, f"it is {level}")
    return logs


def test_p_073_the_last_thousand_messages_are_kept() -> None:
    logs = Logs()
    for n in range(1005):
        logs.add("s", "info", n)
    assert [message.data for message in logs.get(limit=1000)] == list(range(5, 1005))


def test_p_073_a_hundred_are_returned_unless_asked_otherwise_and_the_newest_is_last() -> None:
    logs = Logs()
    for n in range(150):
        logs.add("s", "info", n)
    assert [message.data for message in logs.get()] == list(range(50, 150))
    assert [message.data for message in logs.get(limit=2)] == [148, 149]


def test_p_073_reading_takes_nothing_away() -> None:
    logs = a_log_of_every_level()
    assert logs.get() == logs.get()


@pytest.mark.parametrize("level", LEVELS)
def test_p_073_a_level_means_that_severity_and_above(level: str) -> None:
    found = a_log_of_every_level().get(level=level)
    assert [message.level for message in found] == list(LEVELS[LEVELS.index(level) :])


def test_p_073_the_limit_counts_what_fits_the_filters() -> None:
    logs = Logs()
    for n in range(300):
        logs.add("a" if n % 2 else "b", "error" if n % 3 == 0 else "info", n)
    found = logs.get(server="b", level="warning", limit=10)
    assert [message.data for message in found] == list(range(240, 300, 6))
    assert logs.get(server="nobody") == []


def test_a_level_nobody_knows_counts_as_info() -> None:
    logs = Logs()
    logs.add("s", "verbose", "?")
    assert len(logs.get(level="info")) == 1
    assert logs.get(level="notice") == []


def test_a_message_is_written_as_the_meta_tools_show_it() -> None:
    logs = Logs(clock=Clock())
    logs.add("s", "error", {"why": "no"}, logger="db")
    logs.add("s", "info", "a line", source="stderr")
    assert [message.to_json() for message in logs.get()] == [
        {
            "server": "s",
            "level": "error",
            "logger": "db",
            "source": "protocol",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "data": {"why": "no"},
        },
        {
            "server": "s",
            "level": "info",
            "logger": None,
            "source": "stderr",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "data": "a line",
        },
    ]


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_p_053_a_limit_that_is_none_is_refused(limit: int) -> None:
    with pytest.raises(InvalidArgument, match="from 1 to 1000"):
        Logs().get(limit=limit)
    with pytest.raises(InvalidArgument, match="from 1 to 1000"):
        Notifications().get(limit=limit)


def test_p_053_a_level_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"one of debug, info, .*, emergency, but it is 'loud'"):
        Logs().get(level="loud")


def test_p_082_notifications_can_be_read_again_as_only_events_are_told_once() -> None:
    notifications = Notifications(clock=Clock())
    notifications.add("a", "notifications/resources/updated", {"uri": "file:///x"})
    notifications.add("b", "notifications/tools/list_changed")
    assert notifications.get() == notifications.get()
    assert [one.to_json() for one in notifications.get(server="a")] == [
        {
            "server": "a",
            "method": "notifications/resources/updated",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "params": {"uri": "file:///x"},
        }
    ]
    assert [one.params for one in notifications.get(limit=1)] == [{}]


def test_p_082_the_last_thousand_notifications_are_kept() -> None:
    notifications = Notifications()
    for n in range(1001):
        notifications.add("s", "notifications/x", {"n": n})
    assert [one.params["n"] for one in notifications.get(limit=1000)] == list(range(1, 1001))
