"""Ids that sort by time. R-11: for events, requests and timers only."""

from datetime import timedelta

from coatcheck.proxy.activity.ulid import Ulids
from coatcheck.testing.builders import NOW
from tests.clock import Clock

LETTERS = set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def test_p_045_an_id_is_26_letters_of_crockfords_alphabet() -> None:
    ulid = Ulids().new()
    assert len(ulid) == 26
    assert set(ulid) <= LETTERS
    assert ulid[0] <= "7", "128 bits fit into 26 letters of 5 bits only if the first has 3"


def test_p_045_the_first_ten_letters_are_the_millisecond() -> None:
    # 1 January 2026 is 1767225600000 ms, in base 32:
    milliseconds, letters = 1_767_225_600_000, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    want = "".join(letters[milliseconds // 32**place % 32] for place in range(9, -1, -1))
    assert Ulids(lambda: NOW).new()[:10] == want


def test_p_045_ids_of_one_millisecond_are_strictly_increasing() -> None:
    ulids = Ulids(lambda: NOW)
    made = [ulids.new() for _ in range(5000)]
    assert made == sorted(set(made))
    assert len({ulid[:10] for ulid in made}) == 1


def test_p_045_ids_increase_even_when_the_clock_is_set_back() -> None:
    clock = Clock()
    ulids = Ulids(clock)
    made: list[str] = []
    for seconds in (0, 5, -60, 1, 90):
        clock.now = NOW + timedelta(seconds=seconds)
        made += [ulids.new(), ulids.new()]
    assert made == sorted(set(made))


def test_p_045_ids_of_two_makers_differ() -> None:
    assert Ulids(lambda: NOW).new() != Ulids(lambda: NOW).new()


def test_a_maker_goes_on_above_the_last_id_of_an_earlier_one() -> None:
    last = Ulids(lambda: NOW + timedelta(days=1)).new()
    assert Ulids(lambda: NOW, after=last).new() > last


def test_what_is_no_id_of_ours_holds_nothing_up() -> None:
    assert len(Ulids(lambda: NOW, after="elsewhere").new()) == 26
    assert len(Ulids(lambda: NOW, after="U" * 26).new()) == 26
