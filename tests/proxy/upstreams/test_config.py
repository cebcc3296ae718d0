"""The servers of a file: variables filled in, bad entries told with their line, and no secret in what is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coatcheck.errors import InvalidArgument
from coatcheck.proxy.config import Config, ServerEntry, read_config, server_entry

Read = Callable[[Any], Config]
GOOD = {"url": "http://127.0.0.1:1/mcp"}
SECRET = "hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mcp.json"


@pytest.fixture
def read(file: Path) -> Read:
    """Read a file with this text, or this JSON, in it."""

    def read(content: Any) -> Config:
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_config(file)

    return read


def lines(config: Config) -> list[tuple[int, str]]:
    """Return the lines of what is wrong, and the names."""
    told = [problem.split(":", 2) for problem in config.problems]
    return [(int(line), rest.split("'")[1]) for _, line, rest in told]


# Variables


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("${COATCHECK_X}", "one"),
        ("${env:COATCHECK_X}", "one"),
        ("${COATCHECK_X:-two}", "one"),
        ("${COATCHECK_UNSET:-two}", "two"),
        ("${env:COATCHECK_UNSET:-two}", "two"),
        ("${COATCHECK_UNSET:-}", ""),
        ("${COATCHECK_UNSET:-http://a:1/b?c=d}", "http://a:1/b?c=d"),
        ("a ${COATCHECK_X} b ${COATCHECK_X}", "a one b one"),
        ("$COATCHECK_X ${} $$ {COATCHECK_X}", "$COATCHECK_X ${} $$ {COATCHECK_X}"),
        ("${COATCHECK_NESTED}", "${COATCHECK_X}"),
    ],
)
def test_variables_are_filled_in_wherever_text_may_stand(
    said: str, meant: str, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COATCHECK_X", "one")
    monkeypatch.setenv("COATCHECK_NESTED", "${COATCHECK_X}")
    process = {"command": "run", "args": ["-v", said], "env": {"A": said}, "cwd": said}
    config = read({"mcpServers": {"process": process, "http": {**GOOD, "headers": {"A": said}}}})
    assert config.problems == []
    assert config.servers["process"].entry == {**process, "args": ["-v", meant], "env": {"A": meant}, "cwd": meant}
    assert config.servers["http"].entry == {**GOOD, "headers": {"A": meant}}


@pytest.mark.parametrize("entry", [{**GOOD, "headers": {"A": "${NOT_SET_HERE}"}}, {"command": "${env:NOT_SET_HERE}"}])
def test_a_variable_that_is_not_set_is_named_and_the_others_are_taken(entry: Any, read: Read) -> None:
    config = read({"mcpServers": {"needy": entry, "good": GOOD}})
    assert list(config.servers) == ["good"]
    (problem,) = config.problems
    assert "'needy' is left out" in problem
    assert "NOT_SET_HERE" in problem


def test_an_entry_that_comes_from_a_model_is_not_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_X", SECRET)
    entry = server_entry("a", {"command": "run", "args": ["${COATCHECK_X}"]}, expands=False)
    assert entry.entry["args"] == ["${COATCHECK_X}"]


# Lines

LAYOUTS = {
    "one line": ('{"mcpServers": {"good": {"command": "x"}, "bad": {}}}', 1),
    "indented": ('{\n  "mcpServers": {\n    "good": {"command": "x"},\n    "bad": {}\n  }\n}', 4),
    "the word before": ('{\n "bad": {"bad": 1},\n "mcpServers": {\n "good": {"command": "bad"},\n "bad": {}}}', 5),
    "the word inside": ('{"mcpServers": {\n "good": {"command": "x", "env": {\n "bad": "{"}},\n "bad": {}}}', 4),
    "the word in text": (
        '{"note": "\\"bad\\": {",\n "mcpServers": {"good": {"command": "\\"bad\\":"},\n "bad": {}}}',
        3,
    ),
    "the name of a section": ('{"servers": {\n "good": {"command": "x"},\n "mcpServers": {},\n "bad": {}}}', 4),
    "an escaped name": ('{"mcpServers": {\n "good": {"command": "x"},\n\n "\\u0062ad": {}}}', 4),
    "windows": ('{\r\n "mcpServers": {\r\n "good": {"command": "x"},\r\n "bad": {}}}', 4),
    "spread out": ('{\n\n"mcpServers"\n:\n{"good" : {"command":"x"}\n,\n"bad" : {}\n}\n}', 7),
    "twice": ('{"mcpServers": {"good": {"command": "x"},\n "bad": {"command": "x"},\n "bad": {}}}', 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_bad_entry_is_told_with_its_line(layout: str, read: Read) -> None:
    text, line = LAYOUTS[layout]
    config = read(text)
    assert list(config.servers) == ["good"]
    assert lines(config)[-1] == (line, "bad")


def test_every_bad_entry_of_a_file_is_told_with_its_own_line(read: Read) -> None:
    config = read('{"mcpServers": {\n"a": {},\n"b": 1, "c": null,\n"good": {"command": "x"},\n"d": []}}')
    assert lines(config) == [(2, "a"), (3, "b"), (3, "c"), (5, "d")]
    assert list(config.servers) == ["good"]


def test_the_line_is_that_of_the_name_also_if_the_brace_is_on_the_next(read: Read) -> None:
    assert lines(read('{"mcpServers": {\n "bad":\n {\n }}}')) == [(2, "bad")]


def test_the_line_is_that_of_the_section_that_counts(read: Read) -> None:
    assert lines(read('{"mcpServers": {\n "bad": {}},\n "servers": {"bad": {}}}')) == [(2, "bad")]


# What is wrong

WRONG = {
    "nothing to reach": {},
    "no object": "http://127.0.0.1:1/mcp",
    "null": None,
    "a url that is no text": {"url": 1},
    "no url of ours": {"url": "ws://127.0.0.1:1"},
    "a url without a host": {"url": "http://"},
    "a command that is no text": {"command": ["x"]},
    "sse": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
    "args that are no list": {"command": "x", "args": "-v"},
    "a number among args": {"command": "x", "args": ["-p", 1]},
    "env that is no object": {"command": "x", "env": ["A=1"]},
    "a number in env": {"command": "x", "env": {"A": 1}},
    "headers that are no object": {**GOOD, "headers": "A: 1"},
    "a null among headers": {**GOOD, "headers": {"A": None}},
    "cwd that is no text": {"command": "x", "cwd": 1},
    "a protocol nobody speaks": {**GOOD, "protocol": "2024-11-05"},
    "a protocol that is no text": {**GOOD, "protocol": ["2025-11-25"]},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_bad_entry_is_left_out_and_the_others_are_taken(what: str, read: Read) -> None:
    config = read({"mcpServers": {"first": GOOD, "bad": WRONG[what], "last": {"command": "x"}}})
    assert list(config.servers) == ["first", "last"]
    (problem,) = config.problems
    assert problem.endswith(".")
    assert ":1: 'bad' is left out: " in problem


def test_an_empty_command_is_none(read: Read) -> None:
    assert lines(read({"mcpServers": {"bad": {"command": ""}}})) == [(1, "bad")]


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "_a", ".a", "ä", "a/b", "a+b", "a" * 65, "a\n"])
def test_a_name_that_cannot_be_shown_is_left_out(name: str, read: Read) -> None:
    config = read({"mcpServers": {name: GOOD, "good": GOOD}})
    assert list(config.servers) == ["good"]
    assert "is no name for a server" in config.problems[0]
    assert len(config.problems[0].splitlines()) == 1


@pytest.mark.parametrize("name", ["a", "1", "A-b_c.d", "a__b", "a" * 64])
def test_other_names_are_taken(name: str, read: Read) -> None:
    assert list(read({"mcpServers": {name: GOOD}}).servers) == [name]


def test_a_name_too_much_like_an_earlier_one_is_left_out_with_its_line(read: Read) -> None:
    config = read('{"mcpServers": {"a-b": {"command": "x"},\n "a_b": {"command": "x"}}}')
    assert list(config.servers) == ["a-b"]
    assert lines(config) == [(2, "a_b")]


@pytest.mark.parametrize(("disabled", "is_taken"), [(True, False), (False, True), (None, True)])
def test_a_disabled_server_is_left_out_without_a_word(disabled: Any, is_taken: bool, read: Read) -> None:
    config = read({"mcpServers": {"a": {**GOOD, "disabled": disabled}}})
    assert (list(config.servers), config.problems) == (["a"] if is_taken else [], [])


def test_a_disabled_server_may_be_as_wrong_as_it_likes(read: Read) -> None:
    assert read({"mcpServers": {"a b": {"url": "${NOT_SET_HERE}", "disabled": True}}}) == Config()


def test_servers_may_be_under_servers(read: Read) -> None:
    assert list(read({"servers": {"a": GOOD}}).servers) == ["a"]
    assert list(read({"mcpServers": {"a": GOOD}, "servers": {"b": GOOD}}).servers) == ["a"]


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28", None])
def test_an_entry_may_say_which_generation_to_speak(protocol: str | None, read: Read) -> None:
    entry = {**GOOD, **({"protocol": protocol} if protocol else {})}
    assert read({"mcpServers": {"a": entry}}).servers["a"].protocol == protocol


# The file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("{'mcpServers': {}}", "is no JSON"),
        ('{"mcpServers": {},}', "is no JSON"),
        ("[]", "names no servers; they belong under 'mcpServers'."),
        ("{}", "names no servers"),
        ('"mcpServers"', "names no servers"),
        ('{"mcpServers": []}', "names no servers"),
        ('{"mcpServers": null, "servers": {}}', "names no servers"),
        ('{"url": "http://127.0.0.1:1/mcp"}', "names no servers"),
    ],
)
def test_a_file_without_servers_is_refused_with_its_name(text: str, said: str, read: Read, file: Path) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(text)
    assert str(refused.value).startswith(f"{file} {said}")


def test_a_file_with_an_empty_list_of_servers_is_fine(read: Read) -> None:
    assert read('{"mcpServers": {}}') == Config()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere\.json cannot be read: No such file or directory\.$"):
        read_config(tmp_path / "nowhere.json")
    with pytest.raises(InvalidArgument, match=r"cannot be read: Is a directory\.$"):
        read_config(tmp_path)


@pytest.mark.parametrize("content", ['{"mcpServers": {}}'.encode("utf-16"), b"[" * 100_000], ids=["utf-16", "deep"])
def test_a_file_that_cannot_be_understood_is_refused_like_any_other(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(InvalidArgument, match=r"mcp\.json is no "):
        read_config(file)


def test_a_byte_order_mark_does_no_harm(file: Path) -> None:
    file.write_bytes(b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"}}}')
    assert list(read_config(file).servers) == ["a"]


# What is shown

SHY = {
    "a command": {"command": "/opt/bin/run", "args": [SECRET], "env": {"TOKEN": SECRET}},
    "a header": {**GOOD, "headers": {"Authorization": f"Bearer {SECRET}"}},
    "a url": {"url": f"http://user:{SECRET}@127.0.0.1:1/mcp?key={SECRET}"},
}


@pytest.mark.parametrize("what", SHY)
def test_what_is_shown_of_a_server_has_no_secrets_in_it(what: str) -> None:
    described = server_entry("a", SHY[what]).describe()
    assert SECRET not in json.dumps(described)
    shown = {"type": "stdio", "target": "run"} if what == "a command" else {"type": "http", "target": GOOD["url"]}
    assert described == shown


BLABBING = {
    "a variable in args": {"command": "x", "args": ["${COATCHECK_X}", 1]},
    "args": {"command": "x", "args": SECRET},
    "env": {"command": "x", "env": SECRET},
    "a value of env": {"command": "x", "env": {"A": "${COATCHECK_X}", "B": 1}},
    "a header": {**GOOD, "headers": {"A": "${COATCHECK_X}", "B": 1}},
    "headers": {**GOOD, "headers": [SECRET]},
    "cwd": {"command": "x", "cwd": [SECRET]},
    "protocol": {**GOOD, "headers": {"A": "${COATCHECK_X}"}, "protocol": SECRET},
    "nothing": {"headers": {"A": SECRET}},
    "a variable that is not set": {**GOOD, "headers": {"A": "${COATCHECK_X} ${NOT_SET_HERE}"}},
}
URLS = [
    "ftp://u:${COATCHECK_X}@h",
    "ftp://h/?k=${COATCHECK_X}",
    "http://[::1/?k=${COATCHECK_X}",
    "http://?${COATCHECK_X}",
]


@pytest.mark.parametrize("what", BLABBING)
def test_no_secret_is_in_what_is_said_of_a_bad_entry(what: str, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_X", SECRET)
    (problem,) = read({"mcpServers": {"bad": BLABBING[what]}}).problems
    assert SECRET not in problem


@pytest.mark.parametrize("url", URLS)
def test_no_secret_is_in_what_is_said_of_a_bad_url(url: str, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_X", SECRET)
    (problem,) = read({"mcpServers": {"bad": {"url": url}}}).problems
    assert SECRET not in problem


@pytest.mark.parametrize("command", ["x", None])
def test_an_entry_is_what_it_is_reached_by(command: str | None) -> None:
    entry = ServerEntry("a", {**GOOD, "command": command})
    assert entry.describe() == {"type": "http", "target": GOOD["url"]}
