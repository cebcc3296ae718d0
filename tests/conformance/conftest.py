"""What the suite found without a proxy, for all tests that compare anything with it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.conformance.serving import EVERYTHING, running
from tests.conformance.suite import Check, Outcome, run_core


@pytest.fixture(scope="session")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Outcome]:
    """Give what the core's scenarios of a version find in a server; run once, in whichever process asks first."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def find(server: str, version: str) -> Outcome:
        folder = shared / f"conformance-{server}-{version}"
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _found_once(folder / "found.json", server, version)

    return find


def _found_once(kept: Path, server: str, version: str) -> Outcome:
    if not kept.exists():
        with running(EVERYTHING, server) as url:
            kept.write_bytes(msgspec.json.encode(run_core(url, version, kept.parent / "results")))
    return msgspec.json.decode(kept.read_bytes(), type=dict[str, list[Check]])
