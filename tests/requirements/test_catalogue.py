"""The catalogue and the tests agree: whatever is required is shown, and whatever is claimed to be shown is required."""

from __future__ import annotations

import pytest

from tests.requirements.catalogue import CATALOGUE, Requirement
from tests.requirements.marks import claims

CLAIMS = claims()
SHOWN = {claim.id for claim in CLAIMS if not claim.is_broken}
OF_SERVERS = [requirement for requirement in CATALOGUE if requirement.is_shown_by_tests]


@pytest.mark.parametrize("requirement", OF_SERVERS, ids=lambda one: one.id)
def test_what_is_required_of_a_server_is_shown_by_a_test(requirement: Requirement) -> None:
    assert requirement.id in SHOWN, f"no test is marked @requirement({requirement.id!r}): {requirement.says}"


def test_a_test_claims_only_what_the_catalogue_knows() -> None:
    known = {requirement.id for requirement in OF_SERVERS}
    assert [claim for claim in CLAIMS if claim.id not in known] == []


def test_every_requirement_has_an_id_of_its_own() -> None:
    ids = [requirement.id for requirement in CATALOGUE]
    assert sorted(set(ids)) == sorted(ids)


def test_every_row_of_the_specification_is_listed() -> None:
    for letter, rows in (("S-", 73), ("C-", 24)):
        listed = [requirement.id for requirement in CATALOGUE if requirement.id.startswith(letter)]
        assert listed == [f"{letter}{row:03}" for row in range(1, rows + 1)]


def test_what_clients_do_is_left_to_them_and_says_so() -> None:
    left_out = [requirement for requirement in CATALOGUE if requirement.who == "client"]
    assert all(requirement.excluded for requirement in left_out)
    assert len(left_out) == 11


def test_claims_are_found_in_the_text_of_the_tests() -> None:
    here = "server/test_creation.py::test_a_task_can_be_polled_as_soon_as_its_creation_is_answered"
    assert here in {claim.where for claim in CLAIMS if claim.id == "S-018"}
