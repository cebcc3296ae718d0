"""A key set as issuers publish it: which of its keys verifies what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jwt

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_CURVES = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "secp256k1": ("ES256K",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}
ASYMMETRIC = (*_RSA, *dict.fromkeys(name for names in _OF_CURVES.values() for name in names))
"""What can be verified by those who cannot sign. Who has a key of HMAC can do both."""
_MOST_KEYS = 100
_RSA_BITS = range(2048, 8192 + 1)
_PRIVATE = ("d", "p", "q", "k")
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
_TRIED = 4
"""Keys one token is tried with: whoever sends it decides how much work that is."""


class NoKeys(Exception):
    """There are no keys to be had, and why."""


@dataclass(frozen=True, slots=True)
class _Key:
    kid: str | None
    algorithms: tuple[str, ...]
    public: Any


@dataclass(frozen=True, slots=True)
class KeySet:
    keys: tuple[_Key, ...]

    def fitting(self, kid: str | None, algorithm: str) -> list[Any]:
        """Return the keys that may have signed a token with this head; `kid` None: it names none."""
        named = (key for key in self.keys if kid is None or key.kid == kid)
        return [key.public for key in named if algorithm in key.algorithms][:_TRIED]


def read_key_set(document: Any, algorithms: Collection[str]) -> KeySet:
    """Return the keys of a set that can be used with these algorithms; others may be in it.

    Raises:
        NoKeys: There are none, or it is no key set.
    """
    listed: Any = cast("Mapping[str, Any]", document).get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        raise NoKeys('it is no key set, which is an object with a list of "keys"')
    read = (_read(key, algorithms) for key in cast("list[Any]", listed)[:_MOST_KEYS])
    keys = tuple(key for key in read if key)
    if not keys:
        raise NoKeys(f"it has no public key for {', '.join(algorithms)}")
    return KeySet(keys)


def _read(key: Any, algorithms: Collection[str]) -> _Key | None:
    """Return a key as far as it can be used; None: not at all.

    A private half that was published makes a key worthless: anybody may sign with it.
    """
    if not isinstance(key, dict) or any(name in key for name in _PRIVATE):
        return None
    jwk = cast("dict[str, Any]", key)
    usable = tuple(name for name in _algorithms_of(jwk) if name in algorithms)
    kid = jwk.get("kid")
    if not usable or not _is_for_signatures(jwk) or not isinstance(kid, str | None):
        return None
    try:
        public: Any = jwt.PyJWK({name: jwk[name] for name in _PUBLIC if name in jwk}, usable[0]).key
    except Exception:  # whatever is wrong with somebody else's key, it is none
        return None
    if jwk["kty"] == "RSA" and public.key_size not in _RSA_BITS:
        return None
    return _Key(kid, usable, public)


def _algorithms_of(jwk: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a key of this type can verify, or of that only what it says it is for."""
    match jwk:
        case {"kty": "RSA"}:
            able = _RSA
        case {"kty": "EC" | "OKP", "crv": str() as curve}:
            able = _OF_CURVES.get(curve, ())
        case _:
            able = ()
    own = jwk.get("alg")
    return able if own is None else tuple(name for name in able if name == own)


def _is_for_signatures(jwk: Mapping[str, Any]) -> bool:
    operations: Any = jwk.get("key_ops")
    may_verify = operations is None or (isinstance(operations, list) and "verify" in operations)
    return may_verify and jwk.get("use") in (None, "sig")
