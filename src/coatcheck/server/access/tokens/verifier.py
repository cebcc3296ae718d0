"""`JWTVerifier`: who sends a request, by a JSON Web Token that an issuer has signed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

from coatcheck.errors import InvalidArgument
from coatcheck.policy import Duration, duration
from coatcheck.server.access.tokens.claims import Expected, NotAccepted, access_token, check_head, read_claims
from coatcheck.server.access.tokens.issuer import Issuer, check_url
from coatcheck.server.access.tokens.keys import FixedKeys, Keys
from coatcheck.server.access.tokens.keyset import ASYMMETRIC, NoKeys, read_key_set

logger = logging.getLogger("coatcheck")

_LONGEST = 16 * 1024
_LONGEST_KID = 512
_MOST_LEEWAY = 600.0


class JWTVerifier:
    """The SDK's `TokenVerifier` for tokens an issuer signs. Nothing of a token is ever logged.

    A token is good if it was signed with a key of the issuer, names it and one of our audiences, has not expired, and
    says whose it is. Keys are fetched when they are needed, and again for a key that is not known; while the issuer is
    away, those that are known serve on for a day.
    """

    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str],
        jwks: str | Mapping[str, Any] | None = None,
        algorithms: Sequence[str] = tuple(name for name in ASYMMETRIC if name != "ES256K"),
        leeway: Duration = 30.0,
        scopes: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take what good tokens have in common.

        Args:
            issuer: Its name, an https URL, as tokens have it in `iss`.
            audience: Our name, or names, as tokens have it in `aud`: as a rule the URL of this server.
            jwks: The issuer's keys, or the URL they are at. Left out: its metadata says where.
            algorithms: Those that are accepted; all are asymmetric.
            leeway: How far clocks may be apart.
            scopes: What each token must have been granted.
            clock: Seconds since 1970.
        """
        check_url("issuer", issuer)
        self.issuer, self.audiences, self.scopes = issuer, _texts("audience", audience), _texts("scopes", scopes)
        if not self.audiences:
            raise InvalidArgument("audience must name this server, as the issuer does in the aud of its tokens.")
        self._algorithms = _checked(algorithms)
        self._expected = Expected(issuer, self.audiences, _leeway(leeway))
        self._clock = clock
        self._keys = FixedKeys(self._given(jwks)) if isinstance(jwks, Mapping) else self._fetched(jwks)

    @property
    def settings(self) -> AuthSettings:
        """What the SDK wants to know of authentication, beside this verifier: `auth=verifier.settings`.

        The first audience that is a URL is what clients are told this server is called.
        """
        # As texts: a URL that is parsed before would gain a slash at its end, and be the name of nobody.
        return AuthSettings.model_validate(
            {
                "issuer_url": self.issuer,
                "resource_server_url": next((name for name in self.audiences if _is_url(name)), None),
                "required_scopes": list(self.scopes) or None,
                "validate_token_resource": False,  # it is done here
            }
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who shows a token; None: it is not good, whatever the reason."""
        try:
            payload = await self._payload(token)
            claims = read_claims(payload, self._expected, self._clock())
            return access_token(token, claims, self._expected)
        except NotAccepted as refusal:
            logger.debug("A token was refused: %s", refusal)
            return None

    async def _payload(self, token: str) -> bytes:
        """Return what was signed."""
        if len(token) > _LONGEST or not token.isascii() or token.count(".") != 2:
            raise NotAccepted("it is no signed JSON Web Token")
        try:
            head = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise NotAccepted("its head cannot be read, or demands what is not known here") from error
        check_head(head)
        algorithm, kid = head.get("alg"), head.get("kid")
        if algorithm not in self._algorithms:
            raise NotAccepted("its algorithm is not accepted here")
        if not isinstance(kid, str | None) or (kid and len(kid) > _LONGEST_KID):
            raise NotAccepted("it names no key that could be there")
        return _verified(token, algorithm, await self._keys.fitting(kid, algorithm))

    def _given(self, jwks: Mapping[str, Any]) -> Any:
        try:
            return read_key_set(jwks, self._algorithms)
        except NoKeys as reason:
            raise InvalidArgument(f"jwks cannot be used: {reason}.") from reason

    def _fetched(self, url: str | None) -> Keys:
        return Keys(Issuer(self.issuer, url), self._algorithms, self._clock)


def signed_in_by(tokens: JWTVerifier | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes `MCPServer` ask its callers for tokens.

    Raises:
        InvalidArgument: The options say something else about that.
    """
    if tokens is None:
        return {}
    for name in ("token_verifier", "auth", "auth_server_provider"):
        if options.get(name) is not None:
            raise InvalidArgument(f"tokens= is all a server needs to know its callers; leave {name}= out, or tokens=.")
    return {"token_verifier": tokens, "auth": tokens.settings}


def _verified(token: str, algorithm: str, keys: Sequence[Any]) -> bytes:
    if not keys:
        raise NotAccepted("the issuer has no such key, or none that fits the algorithm")
    for key in keys:
        try:
            return jwt.PyJWS().decode_complete(token, key, algorithms=[algorithm])["payload"]
        except (jwt.PyJWTError, ValueError):
            continue
    raise NotAccepted("its signature is not the issuer's")


def _checked(algorithms: Sequence[str]) -> tuple[str, ...]:
    names = _texts("algorithms", algorithms)
    for name in names:
        if name not in ASYMMETRIC:
            raise InvalidArgument(f"algorithms may have {', '.join(ASYMMETRIC)} in it, but it has {name!r}.")
    if not names:
        raise InvalidArgument("algorithms must have at least one in it; leave it out for all that are asymmetric.")
    return names


def _leeway(leeway: Duration) -> float:
    seconds = 0.0 if leeway == 0 else duration("leeway", leeway).total_seconds()
    if seconds > _MOST_LEEWAY:
        raise InvalidArgument(f"leeway must be at most {_MOST_LEEWAY:.0f} s, but it is {seconds:.0f}.")
    return seconds


def _texts(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(text, str) and text for text in texts):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} takes texts, and none that are empty; it was given {given!r}.")
    return texts


def _is_url(name: str) -> bool:
    return name.startswith(("https://", "http://"))
