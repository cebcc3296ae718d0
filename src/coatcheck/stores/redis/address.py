"""Where a Redis is and how to get in: what a URL says of it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from coatcheck.errors import BadStoreURL

_PORT: Final = 6379
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_USE = "use redis://user:password@host:6379/0?prefix=coatcheck"


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    database: int
    user: str | None
    password: str | None = field(repr=False)
    tls: ssl.SSLContext | None
    prefix: str

    def __str__(self) -> str:
        """Return what may be shown to anyone."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{host}:{self.port}/{self.database}"

    def moved_to(self, host: str, port: int) -> Self:
        return replace(self, host=host or self.host, port=port)


def parse(url: str) -> Address:
    """Read a URL.

    Raises:
        BadStoreURL: Something in it means nothing here. The message does not show the password.
    """
    try:
        parts = urlsplit(url)
        host, port = unquote(parts.hostname or "localhost"), parts.port or _PORT
    except ValueError:
        raise BadStoreURL(f"The host or port of this Redis URL cannot be read; {_USE}.") from None
    path = parts.path.strip("/")
    if parts.fragment or (path and not path.isdecimal()):
        raise BadStoreURL(f"After its host, a Redis URL has the number of a database and options; {_USE}.")
    options = _options(parts.query, is_tls=parts.scheme == "rediss")
    return Address(
        host=host,
        port=port,
        database=int(path or 0),
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password is not None else None,
        tls=_tls(options) if parts.scheme == "rediss" else None,
        prefix=_prefix(options.get("prefix", "coatcheck")),
    )


def _options(query: str, *, is_tls: bool) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    known = ("prefix", *_TLS_OPTIONS) if is_tls else ("prefix",)
    for name, _ in pairs:
        if name in _TLS_OPTIONS and not is_tls:
            raise BadStoreURL(f"The option {name} is for rediss:// only; use that, or leave it out.")
        if name not in known:
            raise BadStoreURL(f"A Redis URL has no option {name!r:.60}; use {', '.join(known)}.")
    if len(dict(pairs)) < len(pairs):
        raise BadStoreURL("An option of this Redis URL is given twice; use it once.")
    return dict(pairs)


def _prefix(prefix: str) -> str:
    """Braces would end the hash tag that keeps all keys of a store on one node of a cluster."""
    if not 0 < len(prefix) <= 100 or not prefix.isprintable() or set(prefix) & set("{} "):
        raise BadStoreURL("A prefix is 1 to 100 printable characters without spaces and braces; use another one.")
    return prefix


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if certificate := options.get("ssl_certfile"):
            context.load_cert_chain(certificate, options.get("ssl_keyfile"))
    except OSError as error:
        raise BadStoreURL(f"A certificate or key named in this URL cannot be used ({error}); check its path.") from None
    match options.get("ssl_cert_reqs", "required"):
        case "required":
            pass
        case "none":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        case _:
            raise BadStoreURL("The option ssl_cert_reqs of a Redis URL is unclear; use required or none.")
    return context
