"""An issuer of tokens: keys, tokens signed with them, and a real HTTP server on loopback that tells what they are."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://books.example/mcp"
OPENID, OAUTH = "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"
KEYS = "/keys"
Json = dict[str, Any]


@dataclass(frozen=True)
class SigningKey:
    kid: str | None
    private: Any
    algorithm: str

    @property
    def public(self) -> Json:
        """Return it as key sets have it."""
        kind: Any = {"E": ECAlgorithm, "R": RSAAlgorithm, "P": RSAAlgorithm}[self.algorithm[0]]
        kind = OKPAlgorithm if self.algorithm == "EdDSA" else kind
        jwk = cast("Json", kind.to_jwk(self.private.public_key(), as_dict=True))
        jwk = {name: value for name, value in jwk.items() if name not in ("key_ops", "alg")}
        return {**jwk, **({"kid": self.kid} if self.kid else {})}

    @property
    def pem(self) -> bytes:
        """Return it as files have it."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, claims: Mapping[str, Any] | bytes, **head: Any) -> str:
        """Return a token; `head` replaces what would be said in front."""
        payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        named = {"kid": self.kid} if self.kid else {}
        return jwt.PyJWS().encode(payload, self.private, self.algorithm, {"typ": "JWT", **named, **head})


def part(value: Any) -> str:
    """Return a part of a token."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def forged(head: Any, claims: Mapping[str, Any], signature: str = "") -> str:
    return f"{part(head)}.{part(claims)}.{signature}"


def hmac_signed(claims: Mapping[str, Any], secret: bytes, algorithm: str = "HS256") -> str:
    """Return a token whose key is what everybody knows."""
    text = f"{part({'alg': algorithm, 'typ': 'JWT', 'kid': 'one'})}.{part(claims)}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), 'sha256'))}"


def new_key(kid: str | None = "one", algorithm: str = "ES256") -> SigningKey:
    curves: dict[str, Any] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    if algorithm in curves:
        return SigningKey(kid, ec.generate_private_key(curves[algorithm]), algorithm)
    if algorithm == "EdDSA":
        return SigningKey(kid, ed25519.Ed25519PrivateKey.generate(), algorithm)
    return SigningKey(kid, _rsa(2048), algorithm)


@cache
def _rsa(bits: int) -> Any:
    return rsa.generate_private_key(65537, bits)


def short_rsa_key(kid: str = "short") -> SigningKey:
    return SigningKey(kid, _rsa(1024), "RS256")


@dataclass
class Clock:
    """Seconds since 1970, turned by hand."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Answered:
    """How a path is answered."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


class Issuer:
    """What it serves can be changed at any time."""

    def __init__(self, port: int, path: str = "") -> None:
        self.name = f"http://127.0.0.1:{port}{path}"
        self.key = new_key()
        self.paths: dict[str, Answered] = {}
        self.asked: list[str] = []
        self.signed: list[str] = []
        self.is_away = False
        self.hold: threading.Event | None = None
        """While it is there and not set, nobody is answered."""
        self.is_asked = threading.Event()
        self.publish(self.key)

    def publish(self, *keys: SigningKey) -> None:
        self.paths[KEYS] = Answered(body={"keys": [key.public for key in keys]})

    def describe(self, path: str = OPENID, **said: Any) -> None:
        """Serve metadata at a path."""
        self.paths[path] = Answered(body={"issuer": self.name, "jwks_uri": self.url(KEYS), **said})

    def rotate(self, kid: str = "two") -> SigningKey:
        """Sign with another key from now on, and publish only that."""
        self.key = new_key(kid)
        self.publish(self.key)
        return self.key

    def url(self, path: str) -> str:
        scheme, _, host = self.name.partition("://")
        return f"{scheme}://{host.partition('/')[0]}{path}"

    def claims(self, **more: Any) -> Json:
        """Return what a good token says; None takes a claim out."""
        now = int(time.time())
        said = {"iss": self.name, "aud": AUDIENCE, "sub": "ann", "client_id": "app", "iat": now, "exp": now + 3600}
        return {name: value for name, value in {**said, **more}.items() if value is not None}

    def token(self, key: SigningKey | None = None, head: Mapping[str, Any] | None = None, **claims: Any) -> str:
        self.signed.append((key or self.key).sign(self.claims(**claims), **(head or {})))
        return self.signed[-1]


@contextmanager
def an_issuer(path: str = "") -> Generator[Issuer]:
    """Serve an issuer on a free port."""
    issuer: Issuer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.is_asked.set()
            if issuer.hold:
                issuer.hold.wait()
            if issuer.is_away:
                self.close_connection = True
                return
            answer = issuer.paths.get(self.path, Answered(404, {}))
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"content-length": str(len(content)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nobody wants to know."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Who asked has hung up."""

    server = Server(("127.0.0.1", 0), Handler)
    issuer = Issuer(server.server_address[1], path)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        if issuer.hold:
            issuer.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
