"""Terminals, and a server to call from them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.caller import serving
from tests.terminal.screen import QUICK_SHELL, Screen, has_tmux


@pytest.fixture(autouse=True)
def tmux() -> None:
    if not has_tmux():
        pytest.skip("tmux is not installed, and these tests need a real terminal")


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A server with the tools of `tests/terminal/app.py`."""
    with serving(tmp_path_factory.mktemp("served")) as where:
        yield where


class Screens:
    """One screen for all tests, or a new one after a test that did not come to its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._screen: Screen | None = None

    def give(self, folder: Path) -> Screen:
        if self._screen is None or not self._screen.is_idle:
            self.close()
            self._screen = self._stack.enter_context(Screen(self._folder, QUICK_SHELL))
        self._screen.type(f"XDG_STATE_HOME={folder / 'state'}")
        return self._screen

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Generator[Screens]:
    screens = Screens(tmp_path_factory.mktemp("screens"))
    yield screens
    screens.close()


@pytest.fixture
def screen(tmp_path: Path, screens: Screens) -> Screen:
    """A terminal with a shell in which `coatcheck` starts at once, and that knows of no tasks yet."""
    return screens.give(tmp_path)


@pytest.fixture
def bash(tmp_path: Path) -> Generator[Screen]:
    """A terminal with a shell as anybody has it."""
    with Screen(tmp_path) as opened:
        yield opened
