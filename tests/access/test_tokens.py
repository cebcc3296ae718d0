"""Tokens an issuer has signed: which are good, whom they name, and what is tried with others."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.auth.provider import AccessToken, principal_components

from coatcheck import InvalidArgument
from coatcheck.server import JWTVerifier
from tests.access.issuer import (
    AUDIENCE,
    Clock,
    Issuer,
    SigningKey,
    an_issuer,
    forged,
    hmac_signed,
    new_key,
    part,
    short_rsa_key,
)

pytestmark = pytest.mark.anyio

NAME = "https://issuer.example"
KEY = new_key()
NOW = 1_800_000_000
CLAIMS: dict[str, Any] = {"iss": NAME, "aud": AUDIENCE, "sub": "ann", "client_id": "app", "exp": NOW + 60}


def verifier(*keys: SigningKey, **options: Any) -> JWTVerifier:
    jwks = {"keys": [key.public for key in keys or (KEY,)]}
    given: dict[str, Any] = {"issuer": NAME, "audience": AUDIENCE, "jwks": jwks, "clock": lambda: NOW, **options}
    return JWTVerifier(**given)


async def verified(token: str, **options: Any) -> AccessToken | None:
    return await verifier(**options).verify_token(token)


def signed(head: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return a token with these claims; None takes one out."""
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return KEY.sign(said, **(head or {}))


async def test_a_good_token_names_its_owner_and_says_all_it_has_to_say() -> None:
    token = signed(scope="read write", roles=["editor"], tid=7)
    found = await verified(token, leeway=10)
    assert found
    assert found == AccessToken(
        token=token,
        client_id="app",
        scopes=["read", "write"],
        expires_at=NOW + 70,
        resource=AUDIENCE,
        subject="ann",
        claims={**CLAIMS, "scope": "read write", "roles": ["editor"], "tid": 7},
    )
    assert principal_components(found) == ("app", NAME, "ann")


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "PS384", "ES256", "ES384", "ES512", "EdDSA"])
async def test_every_asymmetric_algorithm_will_do(algorithm: str) -> None:
    key = new_key("key", algorithm)
    assert await verifier(KEY, key).verify_token(key.sign(CLAIMS))


@pytest.mark.parametrize("kid", ["one", None])
async def test_a_token_that_names_no_key_is_tried_with_those_that_fit(kid: str | None) -> None:
    keys = [new_key(kid), KEY, new_key("else", "RS256")]
    token = jwt.PyJWS().encode(json.dumps(CLAIMS).encode(), KEY.private, "ES256")
    assert await verifier(*keys).verify_token(token)


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, ["a", "b"]),
        ({"scope": ["a", "b"]}, ["a", "b"]),
        ({"scp": "a b"}, ["a", "b"]),
        ({"scp": ["a"]}, ["a"]),
        ({"scopes": ["a", 5]}, ["a"]),
        ({"scope": {"a": 1}}, []),
        ({"scope": 5}, []),
        ({}, []),
    ],
    ids=str,
)
async def test_scopes_are_found_where_issuers_put_them(claims: dict[str, Any], scopes: list[str]) -> None:
    found = await verified(signed(**claims))
    assert found
    assert found.scopes == scopes


@pytest.mark.parametrize(
    ("claims", "client", "subject"),
    [
        ({"client_id": "app", "azp": "other"}, "app", "ann"),
        ({"client_id": None, "azp": "app"}, "app", "ann"),
        ({"client_id": None}, "", "ann"),
        ({"sub": None}, "app", None),
    ],
    ids=str,
)
async def test_a_caller_is_a_client_or_a_subject_or_both(
    claims: dict[str, Any], client: str, subject: str | None
) -> None:
    found = await verified(signed(**claims))
    assert found
    assert (found.client_id, found.subject) == (client, subject)


@pytest.mark.parametrize("aud", [AUDIENCE, [AUDIENCE], ["else", AUDIENCE], "second", ["second", AUDIENCE]])
async def test_one_of_our_names_is_enough(aud: Any) -> None:
    found = await verified(signed(aud=aud), audience=[AUDIENCE, "second"])
    assert found
    assert found.resource == ("second" if aud == "second" else AUDIENCE)


GOOD_HEADS: list[dict[str, Any]] = [{}, {"typ": "at+jwt"}, {"typ": "application/at+JWT"}, {"typ": None}]


@pytest.mark.parametrize("head", GOOD_HEADS, ids=str)
async def test_access_tokens_may_say_what_they_are_or_not(head: dict[str, Any]) -> None:
    if head.get("typ", "") is None:
        token = jwt.PyJWS().encode(json.dumps(CLAIMS).encode(), KEY.private, "ES256", {"typ": "", "kid": "one"})
    else:
        token = signed(head)
    assert await verified(token)


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "no issuer": {"iss": None},
    "another issuer": {"iss": "https://issuer.example.evil"},
    "the issuer with a slash": {"iss": NAME + "/"},
    "the issuer in capitals": {"iss": NAME.upper()},
    "a list of issuers": {"iss": [NAME]},
    "no audience": {"aud": None},
    "another audience": {"aud": "https://other.example"},
    "part of our name": {"aud": AUDIENCE[:-1]},
    "our name and more": {"aud": AUDIENCE + "/admin"},
    "a list without us": {"aud": ["a", "b"]},
    "an empty list": {"aud": []},
    "an object": {"aud": {AUDIENCE: True}},
    "a nested list": {"aud": [[AUDIENCE]]},
    "no end": {"exp": None},
    "an end in the past": {"exp": NOW - 31},
    "an end as text": {"exp": str(NOW + 60)},
    "an end that is true": {"exp": True},
    "an end as list": {"exp": [NOW + 60]},
    "a beginning in the future": {"nbf": NOW + 31},
    "a beginning as text": {"nbf": "0"},
    "issued in the future": {"iat": NOW + 31},
    "issued as text": {"iat": "0"},
    "nobody": {"sub": None, "client_id": None},
    "nobody, at length": {"sub": "", "client_id": ""},
    "a subject that is a number": {"sub": 5},
    "a subject that is a list": {"sub": ["ann"]},
    "a client that is an object": {"client_id": {"a": 1}},
    "an ID token": {"at_hash": "x", "nonce": "y"},
    "an ID token with a code": {"c_hash": "x"},
}


@pytest.mark.parametrize("claims", BAD_CLAIMS.values(), ids=list(BAD_CLAIMS))
async def test_a_signed_token_with_claims_that_are_not_for_here_is_refused(claims: dict[str, Any]) -> None:
    assert await verified(signed(**claims)) is None


@pytest.mark.parametrize(("leeway", "late", "is_good"), [(30, 29, True), (30, 31, False), (0, 0, False), (5, 4, True)])
async def test_clocks_may_be_apart_by_the_leeway(leeway: int, late: int, is_good: bool) -> None:
    assert bool(await verified(signed(exp=NOW - late), leeway=timedelta(seconds=leeway) or 0)) is is_good
    assert bool(await verified(signed(nbf=NOW + late + (not is_good), iat=NOW), leeway=leeway)) is is_good


def _unsigned(head: Any, signature: str = "") -> str:
    return forged(head, CLAIMS, signature)


def _hmac(algorithm: str, secret: bytes) -> str:
    return hmac_signed(CLAIMS, secret, algorithm)


def _changed(token: str) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{part({**CLAIMS, 'sub': 'bob'})}.{signature}"


PEM = KEY.pem
STRANGER = new_key("one")
FORGED: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "words": lambda: "let me in",
    "two parts": lambda: signed().rpartition(".")[0],
    "four parts": lambda: signed() + ".x",
    "encrypted": lambda: f"{part({'alg': 'dir', 'enc': 'A256GCM'})}..x.y.z",
    "not ascii": lambda: signed() + "ä",
    "a line break": lambda: signed() + "\n",
    "too long": lambda: signed(more="x" * 20_000),
    "alg none": lambda: _unsigned({"alg": "none"}),
    "alg None": lambda: _unsigned({"alg": "None", "kid": "one"}),
    "alg NONE with a signature": lambda: _unsigned({"alg": "NONE", "kid": "one"}, "AAAA"),
    "no alg": lambda: _unsigned({"kid": "one"}, "AAAA"),
    "alg null": lambda: _unsigned({"alg": None, "kid": "one"}, "AAAA"),
    "alg as a list": lambda: _unsigned({"alg": ["ES256"], "kid": "one"}, "AAAA"),
    "no signature": lambda: signed().rpartition(".")[0] + ".",
    "HMAC with the public key": lambda: _hmac("HS256", PEM),
    "HMAC with the key of the set": lambda: _hmac("HS256", json.dumps(KEY.public).encode()),
    "HMAC said to be ES256": lambda: _hmac("ES256", PEM),
    "HMAC with nothing": lambda: _hmac("HS256", b""),
    "another key of the same name": lambda: STRANGER.sign(CLAIMS),
    "an unknown key": lambda: signed({"kid": "two"}),
    "a key named by a number": lambda: _unsigned({"alg": "ES256", "kid": 1}, "AAAA"),
    "a key named by a path": lambda: signed({"kid": "../../etc/passwd"}),
    "a key with a very long name": lambda: signed({"kid": "x" * 1000}),
    "a key in the token": lambda: STRANGER.sign(CLAIMS, jwk=STRANGER.public),
    "a key elsewhere": lambda: STRANGER.sign(CLAIMS, jku="http://127.0.0.1:1/keys", x5u="http://127.0.0.1:1/x"),
    "another algorithm of the key": lambda: _unsigned({"alg": "ES384", "kid": "one"}, signed().rpartition(".")[2]),
    "changed claims": lambda: _changed(signed()),
    "crit": lambda: signed({"crit": ["exp"], "exp": NOW}),
    "crit b64": lambda: signed({"crit": ["b64"], "b64": True}),
    "crit empty": lambda: _unsigned({"alg": "ES256", "kid": "one", "crit": []}, "AAAA"),
    "b64 false": lambda: jwt.PyJWS().encode(
        json.dumps(CLAIMS).encode(), KEY.private, "ES256", {"b64": False, "kid": "one"}
    ),
    "a logout token": lambda: signed({"typ": "logout+jwt"}),
    "a proof": lambda: signed({"typ": "dpop+jwt"}),
    "a type that is a number": lambda: signed({"typ": 5}),
    "a head that is a list": lambda: _unsigned([{"alg": "ES256"}], "AAAA"),
    "a head without end": lambda: f"{part(b'[' * 9000)}.{part(CLAIMS)}.AAAA",
    "claims that are a list": lambda: KEY.sign(json.dumps([CLAIMS]).encode()),
    "claims without end": lambda: KEY.sign(b"[" * 8000),
    "claims in another encoding": lambda: KEY.sign(json.dumps(CLAIMS).encode("utf-16")),
    "an end that is not a number": lambda: KEY.sign(json.dumps({**CLAIMS, "exp": float("nan")}).encode()),
    "an end that never comes": lambda: KEY.sign(json.dumps({**CLAIMS, "exp": float("inf")}).encode()),
    "an end with many digits": lambda: KEY.sign(json.dumps(CLAIMS).replace(str(NOW + 60), "9" * 5000).encode()),
    "an end in scientific notation": lambda: KEY.sign(json.dumps(CLAIMS).replace(str(NOW + 60), "1e999").encode()),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=list(FORGED))
async def test_what_the_issuer_did_not_sign_as_an_access_token_is_refused(
    forge: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert await verified(forge()) is None
    assert [record.levelname for record in caplog.records if record.name == "coatcheck"] == ["DEBUG"]


@settings(max_examples=300, deadline=None, print_blob=True)
@given(st.one_of(st.text(), st.text("ab.{}=e_-", max_size=40), st.integers(0, 300).map(lambda cut: signed()[:cut])))
async def test_nothing_that_is_sent_breaks_it(text: str) -> None:
    assert await verified(text) is None


@settings(max_examples=300, deadline=None, print_blob=True)
@given(
    st.dictionaries(
        st.sampled_from(["iss", "aud", "exp", "nbf", "iat", "sub", "client_id", "azp", "scope", "at_hash"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        ),
    )
)
async def test_no_claims_break_it(claims: dict[str, Any]) -> None:
    found = await verified(KEY.sign(json.dumps({**CLAIMS, **claims}).encode()))
    assert found is None or found.client_id or found.subject


async def test_nothing_of_a_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    said: dict[str, Any] = {"sub": "a-subject-of-mine", "client_id": "a-client-of-mine", "aud": "a-name-of-mine"}
    for token in (signed(**said), signed({"kid": "a-key-of-mine"}), signed({"typ": "a-type-of-mine"}), _hmac("x", PEM)):
        assert await verified(token) is None
        assert not any(part in caplog.text for part in (*token.split("."), "of-mine", *said.values()))
    assert "A token was refused: it is for somebody else" in caplog.text


UNFIT: dict[str, dict[str, Any]] = {
    "for encryption": {"use": "enc"},
    "for signing only": {"key_ops": ["sign"]},
    "for another algorithm": {"alg": "ES384"},
    "of HMAC": {"kty": "oct", "k": "c2VjcmV0"},
    "of a type nobody knows": {"kty": "XYZ"},
    "on a curve nobody knows": {"crv": "P-999"},
    "off its curve": {"x": "AAAA"},
    "whose coordinates are numbers": {"x": 5},
    "whose private half is published": {"d": "AAAA"},
    "with a name that is none": {"kid": 5},
}


@pytest.mark.parametrize("change", UNFIT.values(), ids=list(UNFIT))
async def test_a_key_is_not_used_for_what_it_is_not_for(change: dict[str, Any]) -> None:
    spare = new_key("spare")
    keys = [{**KEY.public, **change}, "no key", spare.public]
    assert await verified(signed(), jwks={"keys": keys}) is None
    assert await verified(spare.sign(CLAIMS), jwks={"keys": keys})


@pytest.mark.filterwarnings("ignore:The RSA key")
async def test_a_short_key_of_rsa_is_none() -> None:
    short, spare = short_rsa_key(), new_key("spare")
    assert await verifier(short, spare).verify_token(short.sign(CLAIMS)) is None


async def test_only_algorithms_that_were_chosen_are_accepted() -> None:
    key = new_key("rsa", "RS256")
    assert await verifier(KEY, key, algorithms=["RS256"]).verify_token(key.sign(CLAIMS))
    assert await verifier(KEY, key, algorithms=["RS256"]).verify_token(signed()) is None


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with an_issuer() as served:
        yield served


async def test_time_goes_on_between_two_looks_at_a_token(issuer: Issuer) -> None:
    clock = Clock()
    tokens = JWTVerifier(issuer.name, audience=AUDIENCE, jwks=issuer.url("/keys"), leeway=0, clock=clock)
    token = issuer.token(exp=int(time.time()) + 100)
    assert await tokens.verify_token(token)
    clock.turn(200)
    assert await tokens.verify_token(token) is None


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "issuer without TLS": ({"issuer": "http://issuer.example"}, "issuer must be the https URL"),
    "issuer is a word": ({"issuer": "books"}, "is no https URL"),
    "issuer with a password": ({"issuer": "https://me:secret@issuer.example"}, "has a user"),
    "keys without TLS": ({"jwks": "http://issuer.example/keys"}, "jwks must be the https URL"),
    "keys in a file": ({"jwks": "file:///etc/passwd"}, "is no https URL"),
    "no keys": ({"jwks": {"keys": []}}, "jwks cannot be used: it has no public key"),
    "no key set": ({"jwks": {"kty": "EC"}}, "jwks cannot be used: it is no key set"),
    "only HMAC keys": ({"jwks": {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}}, "it has no public key"),
    "no audience": ({"audience": []}, "audience must name this server"),
    "an empty audience": ({"audience": ""}, "audience takes texts"),
    "algorithm none": ({"algorithms": ["none"]}, "but it has 'none'"),
    "algorithm HS256": ({"algorithms": ["RS256", "HS256"]}, "but it has 'HS256'"),
    "no algorithms": ({"algorithms": []}, "algorithms must have at least one"),
    "leeway below zero": ({"leeway": -1}, "leeway must be longer than zero"),
    "leeway of a day": ({"leeway": timedelta(days=1)}, "leeway must be at most 600 s"),
    "an empty scope": ({"scopes": ["read", ""]}, "scopes takes texts"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=list(WRONG))
def test_what_cannot_be_meant_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as refused:
        verifier(**options)
    assert "secret" not in str(refused.value)
