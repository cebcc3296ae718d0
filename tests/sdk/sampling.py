"""A pytest plugin that runs every test once: with one of its parameters, and another for each version of the SDK."""

from __future__ import annotations

from importlib.metadata import version
from zlib import crc32

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    sdk = version("mcp")
    chosen = [several[crc32(f"{sdk} {test}".encode()) % len(several)] for test, several in cases.items()]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
