"""Every minor of the SDK that we say we work with keeps the contract, and our server works with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sdk.versions import SDKS, run_tests

ROOT = Path(__file__).parents[2]
SERVER_TESTS = ("tests/server", "tests/v2025", "tests/taskless")


def _minor(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def _found(pattern: str, file: str) -> str:
    (found,) = re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE)
    return found


def test_the_oldest_is_the_oldest_that_may_be_installed() -> None:
    assert _minor(SDKS[0]) == _minor(_found(r'^ +"mcp>=([\d.]+),', "pyproject.toml"))


def test_no_minor_is_left_out_up_to_the_one_that_is_pinned() -> None:
    pinned = _found(r"^mcp==([\d.]+)$", "constraints.txt")
    (major, first), (_, last) = _minor(SDKS[0]), _minor(pinned)
    assert [_minor(version) for version in (*SDKS, pinned)] == [(major, minor) for minor in range(first, last + 1)]


def test_the_sdk_and_its_types_are_pinned_alike() -> None:
    assert _found(r"^mcp==([\d.]+)$", "constraints.txt") == _found(r"^mcp-types==([\d.]+)$", "constraints.txt")


@pytest.mark.slow
@pytest.mark.parametrize("version", SDKS)
def test_our_server_works_with_it(version: str) -> None:
    run_tests(version, *SERVER_TESTS, "-m", "not slow", "-p", "tests.sdk.sampling")


@pytest.mark.slow
@pytest.mark.parametrize("version", SDKS)
def test_it_keeps_the_contract(version: str) -> None:
    run_tests(version, "tests/sdk", f"--ignore={Path(__file__).relative_to(ROOT)}")
