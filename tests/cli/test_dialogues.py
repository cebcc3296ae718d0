"""Questions from a JSON Schema, answered line by line by a person."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.cli.asking.dialogue import answer_form
from coatcheck.cli.asking.link import answer_link
from coatcheck.cli.asking.model import answer_for_model
from tests.cli.people import Scripted

pytestmark = pytest.mark.anyio

COLOURS = {"type": "string", "enum": ["r", "g", "b"], "enumNames": ["Red", "Green", "Blue"]}
SIZES = {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}
DAYS = {"type": "array", "items": {"type": "string", "enum": ["mon", "tue", "wed"]}, "minItems": 1, "maxItems": 2}
TOPPINGS = {"type": "array", "items": {"anyOf": [{"const": 1, "title": "Cheese"}, {"const": 2, "title": "Basil"}]}}


def form(required: bool = True, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if required else []}


async def ask(person: Scripted, schema: dict[str, Any]) -> Any:
    answer = await answer_form(person, "What then?", schema)
    assert person.untyped == []
    return answer["content"] if answer["action"] == "accept" else answer["action"]


@pytest.mark.parametrize(
    ("schema", "lines", "value"),
    [
        ({"type": "string"}, ["some text"], "some text"),
        ({"type": "string"}, ["", '""'], ""),
        ({"type": "string"}, ["//decline"], "/decline"),
        ({"type": "string", "format": "email"}, ["ann", "ann@example.org"], "ann@example.org"),
        ({"type": "string", "format": "uri"}, ["example", "https://example.org/a"], "https://example.org/a"),
        ({"type": "string", "format": "date"}, ["28.7.2026", "2026-02-30", "2026-07-28"], "2026-07-28"),
        ({"type": "string", "format": "date-time"}, ["now", "2026-07-28T09:30:00Z"], "2026-07-28T09:30:00+00:00"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["a", "abcd", "abc"], "abc"),
        ({"type": "string", "pattern": "^[A-Z]+$"}, ["abc", "ABC"], "ABC"),
        ({"type": "string", "pattern": "(?<n"}, ["anything"], "anything"),
        ({"type": "integer", "minimum": 1, "maximum": 10}, ["ten", "11", "2.5", "true", "7"], 7),
        ({"type": "integer"}, ["+3.0"], 3),
        ({"type": "number", "exclusiveMinimum": 0}, ["0", "0.5"], 0.5),
        ({"type": "number"}, ["NaN", "-1e2"], -100.0),
        ({"type": "boolean"}, ["perhaps", "YES"], True),
        ({"type": "boolean"}, ["n"], False),
        (COLOURS, ["4", "2"], "g"),
        (COLOURS, ["blue"], "b"),
        (COLOURS, ["r"], "r"),
        (SIZES, ["XL", "large"], "l"),
        ({"enum": [10, 20]}, ["20"], 20),
        ({"enum": ["3", "2", "1"]}, ["1"], "1"),
        (DAYS, ["1,2,3", '""', "mon, 3"], ["mon", "wed"]),
        (DAYS, ["1,1,mon"], ["mon"]),
        (TOPPINGS, ["cheese, 2"], [1, 2]),
        (TOPPINGS, ['""'], []),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [""], None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, ["x", "3"], 3),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, ["{", '{"a": "x"}', '{"a": 1}'], {"a": 1}),
        ({"$ref": "#/$defs/Level"}, ["high", "3"], 3),
    ],
)
async def test_a_field_is_asked_for_until_it_is_right(schema: dict[str, Any], lines: list[str], value: Any) -> None:
    person = Scripted(*lines)
    whole = form(it=schema) | {"$defs": {"Level": {"type": "integer"}}}
    assert await ask(person, whole) == {"it": value}
    complaints = [line for line in person.shown if line.startswith("  ") and line.endswith(".")]
    assert len(complaints) == len(lines) - 1


async def test_a_time_without_a_zone_is_local() -> None:
    answer = await ask(Scripted("2026-07-28 09:30"), form(at={"type": "string", "format": "date-time"}))
    assert answer["at"].startswith("2026-07-28T09:30:00")
    assert answer["at"][19] in "+-"


async def test_what_is_asked_is_explained() -> None:
    person = Scripted("", "y")
    schema = form(
        required=False,
        pages={"type": "integer", "title": "Pages", "description": "How many.", "minimum": 1, "default": 3},
        colour=COLOURS,
    )
    assert await ask(Scripted("", "2", "y"), schema) == {"pages": 3, "colour": "g"}
    await answer_form(person, "What then?", schema)
    for words in (
        "What then?",
        "How many.",
        "Pages (whole number at least 1, optional) [3]: ",
        "    2  Green",
        "/decline",
    ):
        assert person.was_told(words), words


async def test_a_default_is_taken_and_can_be_left_out() -> None:
    schema = form(required=False, a={"type": "string", "default": "x"}, b={"type": "boolean", "default": False})
    assert await ask(Scripted("", "", ""), schema) == {"a": "x", "b": False}
    assert await ask(Scripted("/skip", "", ""), schema) == {"b": False}


async def test_optional_fields_may_be_left_out_and_required_ones_not() -> None:
    schema = form(a={"type": "string"}, b={"type": "integer"}) | {"required": ["a"]}
    person = Scripted("", "/skip", "text", "", "y")
    assert await ask(person, schema) == {"a": "text"}
    assert sum("It is needed." in line for line in person.shown) == 2
    assert person.was_told("(left out)")


async def test_a_form_can_be_gone_through_again() -> None:
    schema = form(a={"type": "string"}, b={"type": "integer"})
    person = Scripted("first", "1", "n", "", "2", "")
    assert await ask(person, schema) == {"a": "first", "b": 2}


async def test_what_does_not_fit_as_a_whole_is_asked_again() -> None:
    schema = form(required=False, a={"type": "string"}) | {"minProperties": 1}
    person = Scripted("", "x")
    assert await ask(person, schema) == {"a": "x"}
    assert person.was_told("does not fit")


@pytest.mark.parametrize(("line", "action"), [("/decline", "decline"), ("/CANCEL", "cancel")])
async def test_one_can_always_decline_and_cancel(line: str, action: str) -> None:
    assert await ask(Scripted(line), form(a={"type": "string"})) == action
    assert await ask(Scripted("x", line), form(a={"type": "string"}, b=COLOURS)) == action
    assert await ask(Scripted("x", "1", line), form(a={"type": "string"}, b=COLOURS)) == action
    assert await ask(Scripted(line), form()) == action


async def test_who_hangs_up_says_nothing() -> None:
    assert await ask(Scripted(), form(a={"type": "string"})) == "cancel"


async def test_without_fields_one_agrees_or_not() -> None:
    assert await ask(Scripted("what", "y"), form()) == {}
    assert await ask(Scripted("n"), form()) == "decline"


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 3}, {"properties": {"a": 3}}, {"required": "a", "properties": {}}]
)
async def test_odd_schemas_are_survived(schema: dict[str, Any]) -> None:
    assert (await answer_form(Scripted(), "Odd", schema))["action"] == "cancel"


async def test_odd_limits_are_passed_over() -> None:
    assert await ask(Scripted("x"), form(a={"type": "string", "minLength": "2", "format": 3})) == {"a": "x"}


# Links


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []

    def open_url(url: str) -> bool:
        urls.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", open_url)
    return urls


async def test_a_link_is_opened_only_if_one_says_so(opened: list[str]) -> None:
    person = Scripted("what", "o", "")
    assert await answer_link(person, "Sign in", "https://example.org/login?a=1") == {"action": "accept"}
    assert opened == ["https://example.org/login?a=1"]
    assert person.was_told("It leads to example.org.")
    assert await answer_link(Scripted(""), "Sign in", "https://example.org/") == {"action": "accept"}
    assert len(opened) == 1


@pytest.mark.parametrize(("line", "action"), [("/decline", "decline"), ("/cancel", "cancel")])
async def test_a_link_can_be_declined(line: str, action: str, opened: list[str]) -> None:
    assert await answer_link(Scripted(line), "Sign in", "https://example.org/") == {"action": action}
    assert opened == []


async def test_what_is_no_web_address_is_not_opened(opened: list[str]) -> None:
    person = Scripted("o", "/decline")
    assert await answer_link(person, "Look", "file:///etc/passwd") == {"action": "decline"}
    assert opened == []


# Models

PARAMS = {
    "systemPrompt": "Be brief.",
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "How are you?"}},
        {"role": "user", "content": [{"type": "image", "data": ""}, {"type": "text", "text": "See?"}]},
    ],
}


async def test_a_person_may_speak_for_a_model() -> None:
    person = Scripted("", "Fine.", "Thanks.", "")
    assert await answer_for_model(person, PARAMS) == "Fine.\nThanks."
    for words in ("system: Be brief.", "user: How are you?", "user: [image] See?"):
        assert person.was_told(words)


@pytest.mark.parametrize("lines", [["/decline"], ["some", "/cancel"], []])
async def test_a_person_need_not_speak_for_a_model(lines: list[str]) -> None:
    assert await answer_for_model(Scripted(*lines), PARAMS) is None
