"""When it is tried again: ever later, up to a limit, and not by everyone at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.proxy.upstreams.backoff import FOR_HTTP, FOR_PROCESSES, Backoff


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (8, 128), (9, 180), (10, 180), (10**6, 180)])
def test_http_is_tried_after_a_second_then_doubling_up_to_three_minutes_for_ever(attempt: int, seconds: float) -> None:
    delays = [FOR_HTTP.delay(attempt) for _ in range(200)]
    assert all(delay is not None and 0.9 * seconds <= delay <= 1.1 * seconds for delay in delays)
    assert len(set(delays)) > 100


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16)])
def test_a_process_is_tried_five_times(attempt: int, seconds: float) -> None:
    delay = FOR_PROCESSES.delay(attempt)
    assert delay is not None
    assert 0.9 * seconds <= delay <= 1.1 * seconds
    assert FOR_PROCESSES.delay(6) is None
    assert FOR_PROCESSES.most == 60


@given(st.integers(1, 10**9), st.floats(0.001, 10), st.floats(10, 1000), st.floats(0, 0.5))
def test_no_delay_is_longer_than_the_longest_but_for_the_jitter(
    attempt: int, first: float, most: float, jitter: float
) -> None:
    delay = Backoff(first, most, jitter=jitter).delay(attempt)
    assert delay is not None
    assert first * (1 - jitter) <= delay <= most * (1 + jitter)
