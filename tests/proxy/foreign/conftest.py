"""The proxy, and the clients that are tried with it, one after the other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.proxy.foreign.callers import Caller
from tests.proxy.foreign.proxies import by_command, over_the_wire
from tests.proxy.foreign.puppets import playing


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that clients call their root, with a note in it. What is around it is the server's."""
    folder = tmp_path_factory.mktemp("proxy") / "root"
    folder.mkdir()
    (folder / "note.txt").write_text("Buy hats")
    return folder


@pytest.fixture(scope="session")
def wire(root: Path) -> Generator[Sequence[str]]:
    with over_the_wire(root.parent) as target:
        yield target


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest, root: Path) -> Generator[Caller]:
    """A client by name: `kind-http` or `kind-stdio`."""
    kind, _, transport = request.param.rpartition("-")
    target = request.getfixturevalue("wire") if transport == "http" else by_command(root.parent)
    with playing(kind, root, target) as puppet:
        puppet.do("tools")  # so that all servers are there
        yield Caller(kind, puppet)
