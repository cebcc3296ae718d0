"""TARGET as one writes it: a URL, a command line, or a name in mcp.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coatcheck.cli.destination import find
from coatcheck.errors import InvalidArgument

SERVERS: dict[str, Any] = {
    "books": {"url": "http://books.test/mcp", "headers": {"X-Key": "${BOOKS_KEY}"}},
    "local": {"command": "python", "args": ["-m", "server", "--db", "${DB:-tasks.db}"], "env": {"A": "b"}},
    "old": {"type": "sse", "url": "http://old.test/sse"},
    "odd": {"nothing": True},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": SERVERS}))
    return tmp_path


def refusal(target: str) -> str:
    with pytest.raises(InvalidArgument) as refused:
        find(target)
    return str(refused.value)


def test_a_url_is_a_url() -> None:
    assert find("https://example.test/mcp") == "https://example.test/mcp"


def test_a_command_line_is_split_as_a_shell_would() -> None:
    assert find("python 'my server.py' --stdio") == ["python", "my server.py", "--stdio"]
    assert find("python") == ["python"]


def test_a_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKS_KEY", "secret")
    assert find("books") == {"url": "http://books.test/mcp", "headers": {"X-Key": "secret"}}
    assert find("local") == {"command": "python", "args": ["-m", "server", "--db", "tasks.db"], "env": {"A": "b"}}


def test_the_hidden_file_comes_first(folder: Path) -> None:
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"books": {"url": "http://other.test"}, "only": {"command": "x"}}})
    )
    assert find("only") == {"command": "x"}
    assert "BOOKS_KEY" in refusal("books")


def test_a_file_and_a_name_are_looked_up(folder: Path) -> None:
    (folder / "other.json").write_text(json.dumps({"servers": {"one": {"command": "x"}}}))
    assert find("other.json:one") == {"command": "x"}
    assert find("other.json") == {"command": "x"}
    assert find(f"{folder}/other.json:one") == {"command": "x"}


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("", "The target is empty; a target is a URL, a quoted command line, or a name in .mcp.json."),
        (
            "boks",
            "There is no command 'boks', and no such name in .mcp.json (there is books, local, old, odd); "
            "a target is a URL, a quoted command line, or a name in .mcp.json.",
        ),
        ("localhost:8000/mcp", "'localhost:8000/mcp' is no URL; write http://localhost:8000/mcp."),
        ("books", "The entry of books needs the variable BOOKS_KEY, which is not set."),
        ("old", "old is served over SSE, which is not supported; use its streamable HTTP URL."),
        ("odd", "The entry of odd has neither a 'url' nor a 'command'."),
        ("python 'x", '"python \'x" is no command line: No closing quotation.'),
        ("nowhere.json:one", "nowhere.json cannot be read: No such file or directory."),
        (".mcp.json:two", "There is no server 'two' in .mcp.json; there is books, local, old, odd."),
    ],
)
def test_what_names_nothing_is_told_what_there_is(target: str, sentence: str) -> None:
    assert refusal(target) == sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "names no servers"),
        ('{"mcpServers": 3}', "names no servers"),
        ("{}", "names no servers"),
    ],
)
def test_a_broken_file_is_told_so(text: str, words: str, folder: Path) -> None:
    (folder / ".mcp.json").write_text(text)
    assert words in refusal("books")


def test_of_several_servers_in_a_file_one_must_be_named() -> None:
    assert refusal(".mcp.json").startswith(".mcp.json has 4 servers; name one of them: there is .mcp.json:books, ")
