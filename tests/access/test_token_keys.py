"""Where the keys come from: found by the issuer's metadata, rotated, kept while it is away, asked for seldom."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator
from typing import Any

import anyio
import pytest

from coatcheck.server import JWTVerifier
from tests.access.issuer import AUDIENCE, KEYS, OAUTH, OPENID, Answered, Clock, Issuer, an_issuer, new_key

pytestmark = pytest.mark.anyio

PATIENCE = 20


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with an_issuer() as served:
        yield served


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(issuer: Issuer, clock: Clock) -> JWTVerifier:
    return JWTVerifier(issuer.name, audience=AUDIENCE, jwks=issuer.url(KEYS), clock=clock, leeway=600)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{one.levelname} {one.getMessage()}" for one in caplog.records if one.name == "coatcheck"]


async def asked(issuer: Issuer) -> None:
    """Return once somebody has asked the issuer for something."""
    await anyio.to_thread.run_sync(issuer.is_asked.wait, PATIENCE)


# Where they are


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("", OPENID),
        ("", OAUTH),
        ("/", OPENID),
        ("/realms/books", f"/realms/books{OPENID}"),
        ("/realms/books", f"{OPENID}/realms/books"),
        ("/realms/books", f"{OAUTH}/realms/books"),
        ("/realms/books", f"/realms/books{OAUTH}"),
        ("/realms/books/", f"{OAUTH}/realms/books"),
    ],
)
async def test_keys_are_found_by_the_metadata_of_their_issuer(path: str, where: str) -> None:
    with an_issuer(path) as issuer:
        issuer.describe(where)
        tokens = JWTVerifier(issuer.name, audience=AUDIENCE)
        assert await tokens.verify_token(issuer.token())
        assert issuer.asked[-2:] == [where, KEYS]


async def test_metadata_of_another_issuer_is_not_believed(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    issuer.describe(OPENID, issuer="https://issuer.example")
    tokens = JWTVerifier(issuer.name, audience=AUDIENCE)
    assert await tokens.verify_token(issuer.token()) is None
    assert KEYS not in issuer.asked
    assert "is of another issuer" in caplog.text


async def test_metadata_further_on_may_be_the_right_one(issuer: Issuer) -> None:
    issuer.describe(OPENID, issuer="https://issuer.example")
    issuer.describe(OAUTH)
    assert await JWTVerifier(issuer.name, audience=AUDIENCE).verify_token(issuer.token())


@pytest.mark.parametrize(
    "elsewhere",
    [
        "http://issuer.example/keys",
        "file:///etc/passwd",
        "//issuer.example/keys",
        5,
        None,
        "",
        "https://me:you@a.example",
    ],
)
async def test_metadata_cannot_lead_to_where_keys_must_not_be_fetched(
    issuer: Issuer, elsewhere: Any, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.describe(OPENID, jwks_uri=elsewhere)
    assert await JWTVerifier(issuer.name, audience=AUDIENCE).verify_token(issuer.token()) is None
    assert "has no usable jwks_uri" in caplog.text


BAD_ANSWERS: dict[str, tuple[Answered, str]] = {
    "an error": (Answered(500, {}), "answered with HTTP 500"),
    "nothing": (Answered(404, {}), "answered with HTTP 404"),
    "a redirection": (Answered(302, {}, {"location": "/elsewhere"}), "answered with HTTP 302"),
    "words": (Answered(body=b"<html>"), "something other than JSON"),
    "brackets without end": (Answered(body=b"[" * 100_000), "something other than JSON"),
    "a list": (Answered(body=[]), "it is no key set"),
    "no keys": (Answered(body={"keys": []}), "it has no public key"),
    "too much": (Answered(body=b" " * 600_000), "answered with more than 524288 bytes"),
    "less than was said": (Answered(body=b"{}", headers={"content-length": "100"}), "was not answered"),
}


@pytest.mark.parametrize(("answer", "words"), BAD_ANSWERS.values(), ids=list(BAD_ANSWERS))
async def test_keys_that_cannot_be_read_are_told_in_a_sentence(
    issuer: Issuer, tokens: JWTVerifier, caplog: pytest.LogCaptureFixture, answer: Answered, words: str
) -> None:
    issuer.paths["/elsewhere"] = issuer.paths[KEYS]
    issuer.paths[KEYS] = answer
    token = issuer.token()
    assert await tokens.verify_token(token) is None
    (line,) = logged(caplog)
    assert line.startswith(f"ERROR The keys of {issuer.name} cannot be fetched: ")
    assert words in line
    assert line.endswith("None are known, so its tokens are refused.")
    assert not any(part in caplog.text for part in token.split("."))
    assert issuer.asked == [KEYS]


# Rotation


async def test_keys_are_fetched_once(issuer: Issuer, tokens: JWTVerifier) -> None:
    assert issuer.asked == []
    for _ in range(5):
        assert await tokens.verify_token(issuer.token())
    assert issuer.asked == [KEYS]


async def test_a_new_key_is_fetched_when_it_is_first_used(issuer: Issuer, tokens: JWTVerifier, clock: Clock) -> None:
    old = issuer.token()
    assert await tokens.verify_token(old)
    clock.turn(11)
    issuer.rotate()
    assert await tokens.verify_token(issuer.token())
    assert await tokens.verify_token(old) is None  # its key was withdrawn
    assert issuer.asked == [KEYS, KEYS]


async def test_a_key_that_was_withdrawn_is_good_for_five_minutes_at_most(
    issuer: Issuer, tokens: JWTVerifier, clock: Clock
) -> None:
    old = issuer.token()
    assert await tokens.verify_token(old)
    issuer.rotate()
    clock.turn(299)
    assert await tokens.verify_token(old)
    clock.turn(1)
    assert await tokens.verify_token(old) is None


async def test_a_flood_of_unknown_keys_makes_one_fetch(issuer: Issuer, tokens: JWTVerifier, clock: Clock) -> None:
    assert await tokens.verify_token(issuer.token())
    clock.turn(11)
    flood = [new_key(f"unknown {number}").sign(issuer.claims()) for number in range(200)]
    assert set(await asyncio.gather(*map(tokens.verify_token, flood))) == {None}
    for token in flood:
        assert await tokens.verify_token(token) is None
    assert issuer.asked == [KEYS, KEYS]
    assert await tokens.verify_token(issuer.token())


async def test_the_first_who_come_wait_for_one_fetch(issuer: Issuer, tokens: JWTVerifier) -> None:
    issuer.hold = threading.Event()
    waiting = [asyncio.create_task(tokens.verify_token(issuer.token())) for _ in range(50)]
    await asked(issuer)
    waiting.pop().cancel()  # who gives up does not take the others with it
    issuer.hold.set()
    assert all(await asyncio.gather(*waiting))
    assert issuer.asked == [KEYS]


async def test_a_clock_that_is_put_back_does_not_stop_the_fetches(
    issuer: Issuer, tokens: JWTVerifier, clock: Clock
) -> None:
    assert await tokens.verify_token(issuer.token())
    clock.turn(-500)
    issuer.rotate()
    assert await tokens.verify_token(issuer.token())


def test_one_verifier_may_serve_one_event_loop_after_another(issuer: Issuer) -> None:
    tokens = JWTVerifier(issuer.name, audience=AUDIENCE, jwks=issuer.url(KEYS))
    for _ in range(2):
        assert asyncio.run(tokens.verify_token(issuer.token()))


# Outages


async def test_known_keys_serve_on_while_the_issuer_is_away_and_it_is_said_once(
    issuer: Issuer, tokens: JWTVerifier, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "coatcheck")
    token = issuer.token(exp=int(clock()) + 200_000)
    assert await tokens.verify_token(token)
    issuer.is_away = True
    for _ in range(5):
        clock.turn(3600)
        assert await tokens.verify_token(token)
    away = f"WARNING The keys of {issuer.name} cannot be fetched: "
    (line,) = logged(caplog)
    assert line.startswith(away)
    assert line.endswith("was not answered (RemoteProtocolError). Known ones serve on.")
    issuer.is_away = False
    clock.turn(11)
    assert await tokens.verify_token(new_key("unknown").sign(issuer.claims())) is None
    assert logged(caplog)[1:] == [f"INFO The keys of {issuer.name} are there again"]


async def test_who_shows_a_known_key_does_not_wait_for_an_issuer_that_is_known_to_be_away(
    issuer: Issuer, tokens: JWTVerifier, clock: Clock
) -> None:
    assert await tokens.verify_token(issuer.token())
    issuer.is_away = True
    clock.turn(400)
    assert await tokens.verify_token(issuer.token())
    issuer.hold = threading.Event()
    issuer.is_asked.clear()
    clock.turn(11)
    assert await tokens.verify_token(issuer.token())  # while the second fetch hangs
    await asked(issuer)
    assert len(issuer.asked) == 3
    issuer.is_away = False
    issuer.hold.set()


async def test_keys_are_not_kept_for_longer_than_a_day(issuer: Issuer, tokens: JWTVerifier, clock: Clock) -> None:
    token = issuer.token(exp=int(clock()) + 200_000)
    assert await tokens.verify_token(token)
    issuer.is_away = True
    clock.turn(86_399)
    assert await tokens.verify_token(token)
    clock.turn(11)
    assert await tokens.verify_token(token) is None


async def test_an_issuer_that_publishes_nothing_usable_does_not_take_its_keys_back(
    issuer: Issuer, tokens: JWTVerifier, clock: Clock
) -> None:
    assert await tokens.verify_token(issuer.token())
    issuer.paths[KEYS] = Answered(body={"keys": []})
    clock.turn(400)
    assert await tokens.verify_token(issuer.token())


async def test_a_token_is_refused_while_there_are_no_keys_and_accepted_once_there_are(
    issuer: Issuer, tokens: JWTVerifier, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.is_away = True
    for _ in range(20):
        assert await tokens.verify_token(issuer.token()) is None
    assert issuer.asked == [KEYS]
    assert len(logged(caplog)) == 1
    issuer.is_away = False
    clock.turn(11)
    assert await tokens.verify_token(issuer.token())
