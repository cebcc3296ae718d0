"""`key=value` as arguments of a tool: typed by its schema, or refused with what would be right."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from coatcheck.cli.arguments import describe, read_arguments
from coatcheck.errors import InvalidArgument

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pages": {"type": "integer", "minimum": 1},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean"},
        "title": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "count": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "place": {"$ref": "#/$defs/Place"},
        "colour": {"enum": ["red", "blue", 3]},
        "fixed": {"const": "one"},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {},
        "dotted.name": {"type": "string"},
    },
    "required": ["pages"],
    "$defs": {
        "Place": {"type": "object", "properties": {"x": {"type": "number"}, "name": {"type": "string"}}},
    },
}


def read(*pairs: str, file: str | None = None, schema: dict[str, Any] = SCHEMA) -> dict[str, Any]:
    return read_arguments(pairs, file, schema, "report")


def refusal(*pairs: str, file: str | None = None, schema: dict[str, Any] = SCHEMA) -> str:
    with pytest.raises(InvalidArgument) as refused:
        read(*pairs, file=file, schema=schema)
    return str(refused.value)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("pages=3", {"pages": 3}),
        ("ratio=2.5", {"ratio": 2.5}),
        ("ratio=-1e3", {"ratio": -1000.0}),
        ("ratio=2", {"ratio": 2}),
        ("loud=yes", {"loud": True}),
        ("loud=FALSE", {"loud": False}),
        ("loud=0", {"loud": False}),
        ("title=42", {"title": "42"}),
        ("title=a = b", {"title": "a = b"}),
        ("title=", {"title": ""}),
        ("title=null", {"title": None}),
        ('title:="null"', {"title": "null"}),
        ("count=null", {"count": None}),
        ("count=7", {"count": 7}),
        ("tags=one", {"tags": ["one"]}),
        ('tags=["a", "b"]', {"tags": ["a", "b"]}),
        ("sizes=[1, 2]", {"sizes": [1, 2]}),
        ("sizes=5", {"sizes": [5]}),
        ("place.x=2.5", {"place": {"x": 2.5}}),
        ("place.name=12", {"place": {"name": "12"}}),
        ('place={"x": 1}', {"place": {"x": 1}}),
        ("colour=red", {"colour": "red"}),
        ("colour=3", {"colour": 3}),
        ("fixed=one", {"fixed": "one"}),
        ("labels.any=4", {"labels": {"any": 4}}),
        ("free=12", {"free": 12}),
        ("free=twelve", {"free": "twelve"}),
        ("free:=[1, null]", {"free": [1, None]}),
        ("dotted.name=x", {"dotted.name": "x"}),
    ],
)
def test_a_value_is_what_the_schema_says(pair: str, value: dict[str, Any]) -> None:
    assert read("pages=1", pair) == {"pages": 1} | value if "pages" not in value else read(pair) == value


def test_a_list_grows_with_each_mention() -> None:
    assert read("pages=1", "tags=a", "tags=b", 'tags=["c"]')["tags"] == ["a", "b", "c"]


def test_places_are_filled_in_one_by_one() -> None:
    assert read("pages=1", "place.x=1", "place.name=here")["place"] == {"x": 1, "name": "here"}


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (["pages=many"], "pages: 'many' is not an integer."),
        (["pages=1.5"], "pages: '1.5' is not an integer."),
        (["pages=true"], "pages: 'true' is not an integer."),
        (["pages=NaN"], "pages: 'NaN' is not an integer."),
        (["pages=1", "loud=perhaps"], "loud: 'perhaps' is not a boolean."),
        (["pages=1", "colour=green"], 'colour: \'green\' is not one of "red" | "blue" | 3.'),
        (["pages=1", "sizes=big"], "sizes: 'big' is not an array of integer."),
        (["pages=1", "place=3"], "place: '3' is not an object."),
        (["pages=1", "place.x=far"], "place.x: 'far' is not a number."),
        (["pages=1", "pages=2"], "pages is given twice."),
        (["pages=1", "free=1", "free.x=2"], "free is already 1, so there is no free.x."),
        (["pages:={"], "pages: '{' is no JSON; for text write pages={."),
        (["pages=0"], "report does not take that: pages: 0 is less than the minimum of 1."),
        (["pages"], "'pages' is no argument; write key=value, key:=JSON, or key.sub=value."),
        (["args.json"], "'args.json' is no argument; write key=value, for a file, --input args.json."),
        (["=3"], "'=3' is no argument; write key=value, key:=JSON, or key.sub=value."),
        (["place..x=3"], "'place..x=3' is no argument; write key=value, key:=JSON, or key.sub=value."),
        ([], "report needs pages (integer); write pages=…."),
        (["pages=1", "place.y=1"], "place of report has no argument 'y'. It takes x (number), name (string)."),
    ],
)
def test_what_cannot_be_right_is_refused(pairs: list[str], sentence: str) -> None:
    assert refusal(*pairs) == sentence


def test_an_unknown_argument_is_told_what_there_is() -> None:
    said = refusal("pagse=3")
    assert said.startswith(
        "report has no argument 'pagse'; did you mean pages? It takes pages (integer), ratio (number)"
    )
    assert refusal("a=1", schema={"type": "object"}) == "report has no argument 'a'. It takes none."


def test_where_anything_goes_everything_is_taken() -> None:
    assert read("a=1", "b=x", schema={"type": "object", "additionalProperties": True}) == {"a": 1, "b": "x"}


def test_a_file_holds_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "arguments.json"
    file.write_text(json.dumps({"pages": 5, "loud": True, "tags": ["a"]}))
    assert read("pages=6", "tags=b", file=str(file)) == {"pages": 6, "loud": True, "tags": ["b"]}


def test_stdin_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"pages": 5}'))
    assert read(file="-") == {"pages": 5}


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is no JSON"), ("[1]", "must hold one JSON object"), ('{"pgaes": 1}', "did you mean pages?")],
)
def test_a_file_is_judged_as_well(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "arguments.json"
    file.write_text(text)
    assert words in refusal(file=str(file))


def test_a_file_that_is_not_there_is_named() -> None:
    assert refusal(file="nowhere.json") == "nowhere.json cannot be read: No such file or directory."


def test_arguments_are_described_as_one_writes_them() -> None:
    assert describe({"properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]}) == (
        'a=integer [b="x" | "y"]'
    )
    assert describe({"properties": {"a": {"$ref": "#/nowhere"}, "b": {"type": ["integer", "null"]}}}) == (
        "[a=any] [b=integer or null]"
    )


def test_a_schema_that_turns_in_circles_is_survived() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert read("a=1", schema=schema) == {"a": 1}
