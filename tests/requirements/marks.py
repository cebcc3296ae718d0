"""How a test says which requirements it shows: `@requirement("S-018")`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

_TESTS = Path(__file__).parents[1]


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test with the requirements it shows, by their ids in the catalogue."""
    return pytest.mark.requirement(*ids)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known, for the conftest of every folder that uses it."""
    config.addinivalue_line("markers", "requirement(*ids): what of the protocol this test shows")


class Claim(NamedTuple):
    """A test that says it shows a requirement."""

    id: str
    where: str
    is_broken: bool
    """The test is expected to fail, so it shows nothing yet."""


def claims() -> list[Claim]:
    """Return what all tests claim to show. It is read from their text, so it is the same in every process."""
    return [claim for path in sorted(_TESTS.rglob("test_*.py")) for claim in _claims_of(path)]


def _claims_of(path: Path) -> Iterator[Claim]:
    name, module = str(path.relative_to(_TESTS)), ast.parse(path.read_text())
    failing = {ast.unparse(node.targets[0]) for node in module.body if isinstance(node, ast.Assign) and _is_xfail(node)}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            is_broken = any(_is_xfail(one) or ast.unparse(one) in failing for one in node.decorator_list)
            for decorator in node.decorator_list:
                for given in _arguments(decorator):
                    assert isinstance(given, ast.Constant), f"{name}: ids are written out, so that they can be found"
                    yield Claim(str(given.value), f"{name}::{node.name}", is_broken)


def _is_xfail(node: ast.AST) -> bool:
    """Whether a whole test is marked so; a single case of it may be, and the others still show something."""
    call = node.value if isinstance(node, ast.Assign) else node
    return isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.xfail"


def _arguments(decorator: ast.expr) -> list[ast.expr]:
    match decorator:
        case ast.Call(func=ast.Name(id="requirement"), args=given):
            return given
        case _:
            return []
