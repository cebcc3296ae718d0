"""Every Python block in the documents runs as it stands, and prints what the block after it says."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NOT_RUN = "<!-- not run -->"
FENCE = re.compile(
    r"(?P<mark>^<!-- [^\n]* -->\n\n?)?^```python\n(?P<code>.*?)^```\n"
    r"(?:(?:\n|[^\n`#]*prints[^\n`]*:\n)*^```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    code: str
    printed: str | None


def _blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start("code")) + 1, found["code"], found["printed"])
        for found in FENCE.finditer(text)
        if (found["mark"] or "").strip() != NOT_RUN
    ]


BLOCKS = [block for page in PAGES if not page.is_symlink() for block in _blocks(page)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page.name}:{block.line}")
def test_a_block_runs_and_prints_what_it_should(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COATCHECK_KEY", raising=False)
    program = tmp_path / "program.py"
    # The line numbers of a traceback are then those of the page.
    program.write_text("\n" * (block.line - 1) + block.code)
    runpy.run_path(str(program), run_name="__main__")
    if block.printed is not None:
        assert capsys.readouterr().out == block.printed


def test_the_blocks_are_found() -> None:
    fences = sum(page.read_text().count("```python\n") for page in PAGES if not page.is_symlink())
    skipped = sum(page.read_text().count(NOT_RUN) for page in PAGES if not page.is_symlink())
    assert len(BLOCKS) == fences - skipped
    assert BLOCKS
