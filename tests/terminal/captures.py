"""What the documents show of the command line, taken from a real terminal: `python -m tests.terminal.captures`.

Each capture is a text and a picture of the same screen, in `docs/captures`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from tests.cli.caller import serving
from tests.cli.serving import ROOT
from tests.terminal.screen import Screen

FOLDER = ROOT / "docs" / "captures"
WIDTH, HEIGHT = 112, 24


def progress(screen: Screen) -> None:
    """A call, half way."""
    _begin(screen, "coatcheck call tutorial report pages=20")
    screen.waits_until(lambda: re.search(r" (9|1\d)/20 ", screen.text()))


def interrupted(screen: Screen) -> None:
    """Ctrl-C, and what it may mean."""
    screen.press("C-c")
    screen.asks("[d]etach", "d")
    screen.sees("come back with")
    screen.waits_until(lambda: screen.is_idle)


def tasks(screen: Screen) -> None:
    """What was handed in."""
    _begin(screen, "coatcheck call tutorial deploy version=2.1 --detach")
    screen.waits_until(lambda: screen.is_idle)
    screen.type("coatcheck tasks")
    screen.sees("input required")
    screen.waits_until(lambda: screen.is_idle)


def question(screen: Screen) -> None:
    """A question, with an answer that does not fit, and one that does."""
    _begin(screen, "coatcheck call tutorial deploy version=2.2")
    screen.asks("Approved", "maybe")
    screen.asks("Approved", "y")
    screen.asks("Comment", "Go ahead")
    screen.asks("Send it?", "")
    screen.sees("2.2 is live")
    screen.waits_until(lambda: screen.is_idle)


def tools(screen: Screen) -> None:
    """What a server offers."""
    _begin(screen, "coatcheck tools tutorial")
    screen.sees("measure")
    screen.waits_until(lambda: screen.is_idle)


def errors(screen: Screen) -> None:
    """What goes wrong, in a sentence."""
    commands = ("report pagse=3", "report pages=many", "reprot", "report pages=1 --mode 2020")
    for number, command in enumerate(commands):
        (screen.type if number else partial(_begin, screen))(f"coatcheck call tutorial {command}")
        screen.waits_until(lambda count=number: screen.text().count("\ncoatcheck: ") > count and screen.is_idle)


def _begin(screen: Screen, command: str) -> None:
    screen.type("clear")
    screen.waits_until(lambda: not screen.text().replace("$", "").strip())
    screen.type(command)


SCENES: tuple[Callable[[Screen], None], ...] = (progress, interrupted, tasks, question, tools, errors)


def capture() -> None:
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as name, serving(Path(name), "examples/server.py:server") as url:
        (Path(name) / ".mcp.json").write_text(json.dumps({"mcpServers": {"tutorial": {"url": url}}}))
        with Screen(Path(name), width=WIDTH, height=HEIGHT) as screen:
            screen.type(f"cd {name}; PS1='$ '; clear")
            for scene in SCENES:
                scene(screen)
                _save(scene.__name__, (scene.__doc__ or "").rstrip("."), screen, url)


def _save(name: str, title: str, screen: Screen, url: str) -> None:
    lines = [line.rstrip() for line in screen.coloured().replace(url, "http://127.0.0.1:8000/mcp").splitlines()]
    while not lines[-1]:
        del lines[-1]
    text = Text.from_ansi("\n".join(lines))
    (FOLDER / f"{name}.txt").write_text(f"{text.plain}\n")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(text, soft_wrap=True)
    (FOLDER / f"{name}.svg").write_text(console.export_svg(title=title, unique_id=name))


if __name__ == "__main__":
    capture()
