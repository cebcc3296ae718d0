"""Every row of the inventory has a test that is named for it, or a decision that mentions it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.proxy.meta.rows import DECIDED

ROWS = [f"P-{number:03}" for number in range(1, 90)]
PROXY = Path(__file__).parents[1]
DECISIONS = Path(__file__).parents[3] / "docs" / "decisions"
_TEST = re.compile(r"def (test_\w+)")


def _tested() -> set[str]:
    """Return the rows that are in the name of a test."""
    sources = [file.read_text() for file in PROXY.rglob("test_*.py")]
    names = [name for source in sources for name in _TEST.findall(source)]
    return {f"P-{row}" for name in names for row in re.findall(r"p_(\d{3})", name)}


def test_every_row_has_a_test_or_a_decision() -> None:
    assert set(ROWS) - _tested() - set(DECIDED) == set()


def test_no_test_is_named_for_a_row_there_is_not() -> None:
    assert _tested() - set(ROWS) == set()


def test_a_decision_mentions_the_rows_that_it_answers() -> None:
    for row, number in DECIDED.items():
        (record,) = DECISIONS.glob(f"{number}-*.md")
        assert row in record.read_text()
