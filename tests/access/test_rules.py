"""Rules by themselves: who they allow, and that nothing but a yes is one."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck import InvalidArgument
from coatcheck.server import Principal, Rule, role, scope, signed_in, when, who
from coatcheck.server.access.principal import NOBODY, principal_of
from coatcheck.server.access.rules import rule_of
from tests.access.people import Passports

pytestmark = pytest.mark.anyio

ANN = Principal(client="app", subject="ann", roles=frozenset({"editor"}), scopes=frozenset({"read", "write"}))
BOB = Principal(client="app", subject="bob", roles=frozenset({"reader"}), scopes=frozenset({"read"}))


def own(caller: Principal, arguments: Any) -> bool:
    return arguments["name"] == caller.subject


async def later(caller: Principal) -> bool:
    return caller is BOB


def fails(caller: Principal) -> bool:
    raise RuntimeError("secret")


def says_so(caller: Principal) -> Any:
    return "yes"


RULES: dict[str, tuple[Rule, bool, bool]] = {
    "a role": (role("editor"), True, False),
    "one of several roles": (role("admin", "reader"), False, True),
    "a scope": (scope("write"), True, False),
    "all of several scopes": (scope("read", "write"), True, False),
    "signed in": (signed_in(), True, True),
    "a test": (who(lambda caller: caller.subject == "ann"), True, False),
    "an asynchronous test": (who(later), False, True),
    "either": (role("editor") | role("reader"), True, True),
    "both": (role("editor") & scope("admin"), False, False),
    "a test that fails": (who(fails), False, False),
    "a test that says something else than yes": (who(says_so), False, False),
}


@pytest.mark.parametrize("name", RULES)
async def test_a_rule_allows_whom_it_names(name: str) -> None:
    rule, ann, bob = RULES[name]
    assert (await rule.allows(ANN, {}), await rule.allows(BOB, {})) == (ann, bob)


@pytest.mark.parametrize("rule", [role("editor"), scope("read"), signed_in()])
async def test_nobody_has_no_roles_and_no_scopes(rule: Rule) -> None:
    assert not await rule.allows(NOBODY, {})


async def test_a_rule_of_arguments_allows_nothing_else() -> None:
    assert await when(own).allows(ANN, {"name": "ann"})
    assert not await when(own).allows(ANN, {"name": "bob"})
    assert not await when(own).allows(ANN, {})  # it fails on what is missing


async def test_without_arguments_a_rule_says_whether_any_would_do() -> None:
    assert await when(own).allows(BOB, None)
    assert await (role("editor") | when(own)).allows(BOB, None)
    assert not await (role("editor") & when(own)).allows(BOB, None)


async def test_a_function_is_a_rule_of_arguments() -> None:
    assert not await rule_of(own).allows(ANN, {"name": "bob"})


async def test_what_a_failing_rule_says_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    await who(fails).allows(ANN, {})
    assert "fails failed with RuntimeError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("wrong", ["editor", 1, ["editor"]])
def test_what_is_no_rule_is_refused_with_advice(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r'as role\("admin"\)'):
        rule_of(wrong)


def test_a_role_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        role()


@pytest.mark.parametrize(
    ("claims", "path"),
    [
        ({"roles": ["a", "b", 1]}, "roles"),
        ({"roles": "a b"}, "roles"),
        ({"realm_access": {"roles": ["b", "a"]}}, "realm_access.roles"),
        ({"https://example.org/roles": ["a", "b"]}, "https://example.org/roles"),
    ],
)
async def test_roles_are_read_from_the_claim_they_are_in(claims: dict[str, Any], path: str) -> None:
    token = await Passports().verify_token("ann")
    assert token
    assert principal_of(token.model_copy(update={"claims": claims}), path).roles == {"a", "b"}


@pytest.mark.parametrize("claims", [None, {}, {"roles": None}, {"roles": 7}, {"roles": {"a": 1}}])
async def test_who_has_no_such_claim_has_no_roles(claims: Any) -> None:
    token = await Passports().verify_token("ann")
    assert token
    assert not principal_of(token.model_copy(update={"claims": claims})).roles
