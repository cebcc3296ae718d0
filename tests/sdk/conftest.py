"""Every way to a server, per version of the protocol."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.sdk.transports import NEWER_WAYS, OLDER_WAYS, Way

# Its pytest plugin imports it in the middle of a report, which CPython 3.11 sometimes does not survive (gh-106905).
import_module("hypothesis")


@pytest.fixture(params=OLDER_WAYS, ids=str)
def older(request: pytest.FixtureRequest) -> Way:
    """How clients of 2025-11-25 reach a server."""
    return request.param


@pytest.fixture(params=NEWER_WAYS, ids=str)
def newer(request: pytest.FixtureRequest) -> Way:
    """How clients of 2026-07-28 reach a server."""
    return request.param


@pytest.fixture(params=[*OLDER_WAYS, *NEWER_WAYS], ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param
