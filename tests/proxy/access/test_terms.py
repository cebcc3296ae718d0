"""The `coatcheck` object of a file and of its entries: what it may say, and that a wrong one lets nobody in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coatcheck.errors import InvalidArgument
from coatcheck.proxy.access.terms import terms_of
from coatcheck.proxy.config import Config, read_config

GOOD: dict[str, Any] = {"command": "x"}


def read(folder: Path, content: Any) -> Config:
    file = folder / "mcp.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return read_config(file)


WRONG: dict[str, tuple[Any, str]] = {
    "no object": (["ops"], "'coatcheck' must be an object with roles, scopes, rate, tools."),
    "a word": ({"role": ["ops"]}, "'coatcheck' knows no 'role'; it has roles, scopes, rate, tools."),
    "roles": ({"roles": "ops"}, "'roles' must be a list of names, as [\"ops\"]."),
    "no roles": ({"roles": []}, "'roles' must be a list of names, as [\"ops\"]."),
    "scopes": ({"scopes": [1]}, "'scopes' must be a list of names, as [\"ops\"]."),
    "rate": ({"rate": 10}, "'rate' must be a number of calls in a time, as \"10/minute\", or per second, hour or day."),
    "no rate": ({"rate": "0/day"}, "'rate' must be a number of calls in a time, as"),
    "week": ({"rate": "1/week"}, "'rate' must be a number of calls in a time, as"),
    "tools": ({"tools": ["a"]}, '\'tools\' must be an object, as {"delete_*": {"roles": ["admin"]}}.'),
    "a tool": ({"tools": {"a*": ["ops"]}}, "'a*' under 'tools' must be an object with roles, scopes, rate."),
    "a tool's word": (
        {"tools": {"a*": {"tools": {}}}},
        "'a*' under 'tools' knows no 'tools'; it has roles, scopes, rate.",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_understood_is_told_with_its_line_and_leaves_the_server_out(wrong: str, tmp_path: Path) -> None:
    said, sentence = WRONG[wrong]
    config = read(tmp_path, {"mcpServers": {"good": GOOD, "bad": {**GOOD, "coatcheck": said}}})
    assert list(config.servers) == ["good"]
    (problem,) = config.problems
    assert problem.startswith(f"{tmp_path}/mcp.json:6: 'bad' is left out: {sentence}")


def test_what_cannot_be_understood_of_all_servers_leaves_all_out(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"mcp.json:2: 'coatcheck' knows no 'role'"):
        read(tmp_path, '{"mcpServers": {"good": {"command": "x"}},\n"coatcheck": {"role": ["ops"]}}')


@pytest.mark.parametrize("said", [None, {}, {"tools": {}}, {"tools": {"a": {}}}])
def test_who_says_nothing_has_kept_nothing(said: Any) -> None:
    assert not terms_of(said)


@pytest.mark.parametrize(
    ("pattern", "tool", "fits"),
    [
        ("delete_*", "delete_all", True),
        ("delete_*", "DELETE_all", True),
        ("Delete_?", "delete_x", True),
        ("delete_*", "undelete_all", False),
        ("*", "anything", True),
        ("[ab]c", "bc", True),
        ("a.c", "abc", False),
        ("a*", "a\nb", True),
        ("*", None, False),
    ],
)
def test_a_pattern_is_of_whole_names_however_they_are_spelt(pattern: str, tool: str | None, fits: bool) -> None:
    terms = terms_of({"tools": {pattern: {"rate": "1/minute"}}})
    assert bool(list(terms.of(tool))) is fits


def test_only_rules_need_callers_who_are_known(tmp_path: Path) -> None:
    for said, needs in (({"rate": "1/day"}, False), ({"tools": {"a": {"scopes": ["x"]}}}, True)):
        assert read(tmp_path, {"mcpServers": {"a": {**GOOD, "coatcheck": said}}}).needs_names is needs
        assert read(tmp_path, {"mcpServers": {"a": GOOD}, "coatcheck": said}).needs_names is needs


def test_the_example_of_the_guide_is_understood(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "proxy.md").read_text()
    config = read(tmp_path, page.partition("## Who may do what")[2].partition("```json\n")[2].partition("```")[0])
    assert config.problems == []
    assert config.needs_names
    assert [term.pattern for term in config.servers["billing"].terms.of("delete_all")] == [None, "delete_*"]
