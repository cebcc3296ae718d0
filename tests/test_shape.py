"""The shape of the code and of its documents: sizes, names, and that what is written is what is there."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import coatcheck
from coatcheck import Engine, Policy, Task, lifecycle
from coatcheck.errors import Refused
from coatcheck.lifecycle import Event, advance
from coatcheck.payload import encode
from coatcheck.store import Store
from coatcheck.task import Entry, Failure, InputRequest, ToolCall

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "coatcheck"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
MAX_LINES, MAX_TEST_LINES, MAX_FUNCTION_LINES, MAX_PUBLIC_NAMES, MAX_AGENT_LINES = 400, 500, 50, 30, 60


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Reading the documents


def _section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of the same or a higher level."""
    level = heading.split()[0]
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {heading!r}"
    return found[1]


def _code_block(section: str) -> list[str]:
    found = re.search(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found
    return found[1].splitlines()


def _tables(section: str) -> list[list[list[str]]]:
    """Return the tables of a section: rows of cells, the heading first, backticks taken off."""
    tables = re.findall(r"(?:^\|.*\|\n)+", section + "\n", re.MULTILINE)
    return [
        [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in table.splitlines()]
        for table in tables
    ]


def _rows(section: str, table: int = 0) -> list[list[str]]:
    return _tables(section)[table][2:]


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


# Sizes and heads


@pytest.mark.parametrize("path", [*MODULES, *TESTS], ids=_name)
def test_a_module_is_small(path: Path) -> None:
    limit = MAX_LINES if SOURCE in path.parents else MAX_TEST_LINES
    assert len(path.read_text().splitlines()) <= limit


@pytest.mark.parametrize("path", [*MODULES, *TESTS], ids=_name)
def test_functions_are_short(path: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_opens_with_one_line_that_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    if not text:
        assert path.name == "__init__.py"
        return
    head = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    assert head, "there is no docstring"
    assert "\n" not in head, "its first paragraph is longer than a line"


def test_the_public_names_are_few_and_explained() -> None:
    names = coatcheck.__all__
    assert len(names) <= MAX_PUBLIC_NAMES
    assert len(set(names)) == len(names)
    assert [name for name in names if not (getattr(coatcheck, name).__doc__ or "").strip()] == []


# ARCHITECTURE.md


def test_the_tree_is_what_is_on_disk() -> None:
    head, *lines = _code_block(_section(ARCHITECTURE, "## The tree"))
    assert head == "src/coatcheck/"
    drawn: list[str] = []
    folders: list[str] = []
    for line in lines:
        found = re.match(r"([│ ]*)[├└]── (\S+)", line)
        assert found, line
        depth = len(found[1]) // 4
        del folders[depth:]
        if found[2].endswith("/"):
            folders.append(found[2])
        else:
            drawn.append("".join(folders) + found[2])
    files = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sorted(drawn) == sorted(str(path.relative_to(SOURCE)) for path in files if path.name != "py.typed")


def test_the_layers_are_those_that_are_enforced() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (enforced,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert _code_block(_section(ARCHITECTURE, "## Which may import which")) == enforced


def test_the_fields_of_a_task_are_all_named() -> None:
    named = [name for name, _ in _rows(_section(ARCHITECTURE, "### Task"))]
    assert named == list(Task.__struct_fields__)


def test_the_events_are_all_named() -> None:
    named = _quoted("".join(re.findall(r"^\| .*", _section(ARCHITECTURE, "### Events"), re.MULTILINE)))
    assert sorted(named) == sorted(_event_names())


def test_the_methods_of_the_store_are_all_named() -> None:
    named = [name for name, _ in _rows(_section(ARCHITECTURE, "### Store"))]
    assert named == _public_methods(Store)


def test_the_verbs_of_the_engine_are_all_named() -> None:
    named = [verb for _, verbs in _rows(_section(ARCHITECTURE, "### Engine")) for verb in verbs.split(", ")]
    assert named == _public_methods(Engine)


def _event_names() -> set[str]:
    events = {kind for kind in get_args(Event) if kind is not lifecycle.WorkerEvent}
    return {kind.__name__ for kind in (*events, *lifecycle.WorkerEvent.__subclasses__())}


def _public_methods(kind: type) -> list[str]:
    return [name for name, _ in vars(kind).items() if not name.startswith("_") and callable(getattr(kind, name))]


# The transition tables, cell by cell

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=20)
DAY = timedelta(days=1)
HOLDER = "the holder"
QUESTION = InputRequest(method="elicitation/create", params=encode({}))
CLAIM = lifecycle.Claimed(HOLDER, NOW + LEASE)
ASK = lifecycle.InputRequested(1, {"a": QUESTION, "b": QUESTION}, DAY)
PATHS: dict[str, Sequence[Event]] = {
    "waiting": (),
    "held": (CLAIM,),
    "asking": (CLAIM, ASK),
    "parked": (CLAIM, ASK, lifecycle.Released(1)),
    "finished": (CLAIM, lifecycle.Completed(1, encode(1))),
}
EVENTS: dict[tuple[str, str], Event] = {
    ("Claimed", ""): CLAIM,
    ("Renewed", ""): lifecycle.Renewed(1, NOW + 2 * LEASE),
    ("HandedOver", ""): lifecycle.HandedOver(1, "another", NOW + 3 * LEASE),
    ("Noted", ""): lifecycle.Noted(1, "half done"),
    ("Recorded", ""): lifecycle.Recorded(1, (Entry(kind="step", key="s", value=encode(1), at=NOW),)),
    ("InputRequested", "a new key"): lifecycle.InputRequested(1, {"c": QUESTION}, DAY),
    ("InputRequested", "no key, or a used one"): lifecycle.InputRequested(1, {}, DAY),
    ("InputWithdrawn", "all open questions"): lifecycle.InputWithdrawn(1, ("a", "b")),
    ("InputWithdrawn", "some of them"): lifecycle.InputWithdrawn(1, ("a",)),
    ("InputProvided", "all open questions"): lifecycle.InputProvided({"a": encode(1), "b": encode(2)}),
    ("InputProvided", "some of them"): lifecycle.InputProvided({"b": encode(2)}),
    ("Released", "resumable"): lifecycle.Released(1),
    ("Released", "not resumable"): lifecycle.Released(1),
    ("Completed", ""): lifecycle.Completed(1, encode(1)),
    ("Failed", ""): lifecycle.Failed(1, Failure(message="no")),
    ("Cancelled", ""): lifecycle.Cancelled("enough"),
    ("Stalled", "lease runs"): lifecycle.Stalled(NOW + 3 * LEASE),
    ("Stalled", "lease ran out"): lifecycle.Stalled(NOW + 3 * LEASE),
    ("WorkerLost", "lease runs"): lifecycle.WorkerLost(3, "silent", "another"),
    ("WorkerLost", "lease ran out, resumable"): lifecycle.WorkerLost(3, "silent"),
    ("WorkerLost", "lease ran out, resumable, max_losses reached"): lifecycle.WorkerLost(1, "silent"),
    ("WorkerLost", "lease ran out, not resumable"): lifecycle.WorkerLost(3, "silent"),
    ("WorkerLost", "lease runs, holder is the dead worker, resumable"): lifecycle.WorkerLost(3, "dead", HOLDER),
    ("WorkerLost", "lease runs, holder is the dead worker, not resumable"): lifecycle.WorkerLost(3, "dead", HOLDER),
}
TRANSITIONS, LEASES = _tables(_section(ARCHITECTURE, "## The transitions"))


def _task(state: str) -> Task:
    task = Task(
        id="t",
        owner=None,
        call=ToolCall(tool="slow"),
        created_at=NOW,
        updated_at=NOW,
        expires_at=NOW + DAY,
        poll_interval=timedelta(seconds=2),
        resumable=True,
    )
    for event in PATHS[state]:
        task = advance(task, event, NOW)
    return task


def _state_after(task: Task, event: Event, now: datetime, name_of: Callable[[Task, datetime], str]) -> str:
    try:
        return name_of(advance(task, event, now), now)
    except Refused as refusal:
        return type(refusal).__name__


def _state(task: Task, now: datetime) -> str:
    if task.status.is_terminal:
        return task.status.value
    names = ("held", "asking") if task.lease else ("waiting", "parked")
    return names[bool(task.input_requests)]


def _cells() -> Iterator[tuple[str, str, str, str]]:
    for event, condition, *outcomes in TRANSITIONS[2:]:
        for state, outcome in zip(TRANSITIONS[0][2:], outcomes, strict=True):
            yield event, condition, state, outcome


def test_the_table_has_every_state_and_event() -> None:
    assert TRANSITIONS[0] == ["event", "if", *PATHS]
    assert [(event, condition) for event, condition, *_ in TRANSITIONS[2:]] == list(EVENTS)
    assert {event for event, _ in EVENTS} == _event_names()


@pytest.mark.parametrize(("event", "condition", "state", "outcome"), list(_cells()))
def test_a_cell_says_what_advance_does(event: str, condition: str, state: str, outcome: str) -> None:
    task = msgspec.structs.replace(_task(state), resumable="not resumable" not in condition)
    now = NOW + 2 * LEASE if "ran out" in condition else NOW
    assert _state_after(task, EVENTS[event, condition], now, _state) == outcome


@pytest.mark.parametrize("state", PATHS)
def test_an_earlier_attempt_has_lost_its_lease(state: str) -> None:
    task = msgspec.structs.replace(_task(state), attempt=2)
    outcome = _state_after(task, lifecycle.Noted(1, "late"), NOW, _state)
    assert outcome == ("AlreadyFinished" if state == "finished" else "LeaseLost")


@pytest.mark.parametrize("ending", [EVENTS["Completed", ""], EVENTS["Failed", ""], EVENTS["Cancelled", ""]])
def test_nothing_changes_a_finished_task(ending: Event) -> None:
    task = advance(_task("held"), ending, NOW)
    assert {_state_after(task, event, NOW, _state) for event in EVENTS.values()} == {"AlreadyFinished"}


def test_a_used_key_cannot_be_asked_again() -> None:
    with pytest.raises(Refused):
        advance(_task("asking"), lifecycle.InputRequested(1, {"a": QUESTION}, DAY), NOW)


def _lease(task: Task, now: datetime) -> str:
    if task.lease is None:
        return "none"
    return ("stalled, " if task.lease.is_stalled else "") + ("runs" if task.lease.until > now else "ran out")


@pytest.mark.parametrize("row", LEASES[2:], ids=lambda row: row[0])
@pytest.mark.parametrize("state", ["held", "asking"])
def test_a_lease_becomes_what_the_table_says(state: str, row: list[str]) -> None:
    task, now = _task(state), NOW
    if row[0] != "runs":
        now += 2 * LEASE
    if row[0].startswith("stalled"):
        task = advance(task, lifecycle.Stalled(now + LEASE), now)
    if row[0] == "stalled, ran out":
        now += LEASE
    assert _lease(task, now) == row[0]
    events = {
        "Renewed": lifecycle.Renewed(1, now + LEASE),
        "Noted": lifecycle.Noted(1, "still here"),
        "Stalled": lifecycle.Stalled(now + LEASE),
        "WorkerLost": lifecycle.WorkerLost(3, "silent"),
    }
    assert LEASES[0] == ["lease", *events]
    assert [_state_after(task, event, now, _lease) for event in events.values()] == row[1:]


# The other documents


SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
MIB = 1 << 20


def _setting(text: str) -> object:
    if text in ("yes", "no"):
        return text == "yes"
    if text == "none":
        return None
    number, _, unit = text.partition(" ")
    if unit == "MiB":
        return int(number) * MIB
    return timedelta(seconds=float(number) * SECONDS[unit.removesuffix("s")]) if unit else int(number)


def test_the_readme_states_the_defaults() -> None:
    rows = _rows(_section((ROOT / "README.md").read_text(), "## How it behaves"))
    assert {name: _setting(default) for name, default, _ in rows} == msgspec.structs.asdict(Policy())


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == coatcheck.__version__


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name)
def test_a_decision_says_what_was_rejected(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == ["Context", "Decision", "Rejected", "Consequences"]
    assert text.startswith(f"# {path.name[:4]}: ")


def test_the_decisions_are_listed() -> None:
    listed = re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (ROOT / "docs" / "decisions" / "README.md").read_text())
    assert listed == [path.name for path in DECISIONS]
    assert [path.name[:4] for path in DECISIONS] == [f"{number:04}" for number in range(1, len(DECISIONS) + 1)]


def test_the_page_for_agents_is_short_and_names_what_exists() -> None:
    text = (ROOT / "AGENTS.md").read_text()
    assert len(text.splitlines()) <= MAX_AGENT_LINES
    assert (ROOT / "CLAUDE.md").read_text() == text
    named = _quoted(text)
    paths = [name for name in named if re.fullmatch(r"\.?[\w./-]+(/|\.\w+)", name) and name != ".venv"]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name in named if name.startswith("make ") and name.removeprefix("make ") not in targets] == []


# Everything that is tracked


def _files() -> list[Path]:
    """What is tracked, or would be."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def _prose(markdown: str) -> str:
    return re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)


def test_relative_links_lead_somewhere() -> None:
    broken: list[str] = []
    for page in (path for path in _files() if path.suffix == ".md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page.read_text())):
            path, _, anchor = target.partition("#")
            if ":" in path:
                continue
            linked = page.parent / path if path else page
            if not linked.exists() or (anchor and anchor not in _anchors(linked)):
                broken.append(f"{_name(page)}: {target}")
    assert broken == []


def _anchors(page: Path) -> list[str]:
    headings = re.findall(r"^#+ (.*)", _prose(page.read_text()), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_nothing_names_an_index_or_a_machine() -> None:
    # Written in pieces, so that this file does not name them either.
    parts = ["index" + "-url", r"https?://[^ ]*" + "pypi", *(f"/{folder}/" for folder in ("work", "home", "root"))]
    forbidden = re.compile("|".join(parts))
    found: list[str] = []
    for path in _files():
        text = path.read_text(errors="replace")
        found += [f"{_name(path)}: {match[0]}" for match in forbidden.finditer(text)]
    assert found == []
