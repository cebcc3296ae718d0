"""P-050: five diagrams, and what is in them is what is in the tables, no more and no less."""

import json
import re
from collections.abc import Iterator

import pytest

from coatcheck.proxy.diagrams import ALIAS_URI, DIAGRAMS_URI, GROUPS, TALK, diagrams
from coatcheck.proxy.states import CALLS, ELICITATIONS, SAMPLINGS, TASKS, Table

STATE_DIAGRAMS = {
    "proxy_task_states": TASKS,
    "pending_elicitation_states": ELICITATIONS,
    "pending_sampling_states": SAMPLINGS,
    "tool_call_lifecycle": CALLS,
}
NODE, TEXT = r"[a-z][a-z_0-9]*", r"[^:;#\"\[\]{}|<>\n]+"
KEYWORDS = {"end", "state", "note", "subgraph", "class", "click", "style", "default", "graph", "direction"}
Edge = tuple[str, str, str]


def mermaid(name: str) -> list[str]:
    (source,) = [one["mermaid"] for one in diagrams()["diagrams"] if one["name"] == name]
    return source.splitlines()


def parsed_states(lines: list[str]) -> Iterator[tuple[str, Edge]]:
    """Yield the edges, each with the state it is inside of; fail at whatever is no edge and no block of edges."""
    inside = ""
    for line in lines:
        if block := re.fullmatch(rf"    state ({NODE}) {{", line):
            assert not inside
            inside = block[1]
        elif line == "    }":
            assert inside
            inside = ""
        else:
            indent = " " * (8 if inside else 4)
            edge = re.fullmatch(rf"{indent}(\[\*\]|{NODE}) --> (\[\*\]|{NODE}) : ({TEXT})", line)
            assert edge, line
            yield inside, (edge[1], edge[2], edge[3])
    assert not inside


def drawn(table: Table, inside: str = "") -> Iterator[tuple[str, Edge]]:
    yield inside, ("[*]", table.start, table.begins)
    yield from ((inside, (state, step.to, step.label)) for (state, _), step in table.steps.items())
    yield from ((inside, (state, "[*]", label)) for state, label in table.ends.items())
    for state, inner in table.inner.items():
        yield from drawn(inner, state)


def test_p_049_the_resource_has_a_name_of_ours_and_the_one_it_was_first_given() -> None:
    assert (DIAGRAMS_URI, ALIAS_URI) == ("coatcheck://diagrams", "emceepee://diagrams")


def test_p_050_there_are_five_each_with_name_description_and_source() -> None:
    made = diagrams()["diagrams"]
    assert [one["name"] for one in made] == [*STATE_DIAGRAMS, "entity_relationships"]
    assert all(one.keys() == {"name", "description", "mermaid"} and all(one.values()) for one in made)


def test_p_050_they_are_json_and_never_change() -> None:
    assert json.loads(json.dumps(diagrams())) == diagrams()


@pytest.mark.parametrize("name", STATE_DIAGRAMS)
def test_p_050_a_state_diagram_has_all_of_its_table_and_nothing_else(name: str) -> None:
    head, *lines = mermaid(name)
    assert head == "stateDiagram-v2"
    found = list(parsed_states(lines))
    assert len(set(found)) == len(found), "an edge that is drawn twice says nothing"
    assert sorted(found) == sorted(drawn(STATE_DIAGRAMS[name]))


@pytest.mark.parametrize("name", STATE_DIAGRAMS)
def test_p_050_no_state_is_named_like_a_word_of_the_language(name: str) -> None:
    named = {node for _, (start, end, _) in parsed_states(mermaid(name)[1:]) for node in (start, end)}
    assert not named & KEYWORDS


def test_p_050_the_flowchart_has_all_who_talk_and_all_they_say_and_nothing_else() -> None:
    head, *lines = mermaid("entity_relationships")
    assert head == "flowchart TB"
    groups: dict[str, dict[str, str]] = {}
    talk: list[tuple[str, str, tuple[str, ...]]] = []
    inside: str | None = None
    for line in lines:
        if group := re.fullmatch(rf'    subgraph {NODE} \["({TEXT})"\]', line):
            assert inside is None
            inside = str(group[1])
            groups[inside] = {}
        elif line == "    end":
            inside = None
        elif member := re.fullmatch(rf'        ({NODE})\["({TEXT})"\]', line):
            assert inside is not None
            groups[inside][member[1]] = member[2]
        else:
            link = re.fullmatch(rf'    ({NODE}) -->\|"({TEXT})"\| ({NODE}(?: & {NODE})*)', line)
            assert link, line
            talk.append((link[1], link[2], tuple(link[3].split(" & "))))
    assert groups == GROUPS
    assert talk == [(who, said, tuple(to)) for who, said, to in TALK]


def test_p_050_whoever_talks_or_is_talked_to_is_somewhere_and_only_once() -> None:
    members = [member for group in GROUPS.values() for member in group]
    assert len(set(members)) == len(members)
    assert {node for who, _, to in TALK for node in (who, *to)} == set(members)
    assert not set(members) & KEYWORDS


def test_p_025_logs_are_no_events() -> None:
    assert not any("logs" in (who, *to) and "events" in to for who, _, to in TALK)
