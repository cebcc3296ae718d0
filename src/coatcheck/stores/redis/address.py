"""Where a Redis is and how to get in: what a URL says of it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from coatcheck.errors import BadStoreURL

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_USE = "use redis://user:password@host:6379/0?prefix=coatcheck"
_USE_SENTINEL = "use redis+sentinel://user:password@host:26379,host:26379/service/0?prefix=coatcheck"

Place = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True)
class Address:
    places: tuple[Place, ...]
    """Where to try, one after the other."""
    service: str | None
    """What sentinels, who are at these places then, call the one that is wanted."""
    database: int
    user: str | None
    password: str | None = field(repr=False)
    sentinel_password: str | None = field(repr=False)
    tls: ssl.SSLContext | None
    prefix: str

    def __str__(self) -> str:
        """Return what may be shown to anyone."""
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.places)
        kind = f"redis{'s' if self.tls else ''}{'+sentinel' if self.service else ''}"
        return f"{kind}://{places}/{f'{self.service}/' if self.service else ''}{self.database}"

    @property
    def first(self) -> Place:
        return self.places[0]

    def at(self, place: Place) -> Self:
        """Return the address of one server, at a place that somebody told us of."""
        return replace(self, places=((place[0] or self.first[0], place[1]),), service=None)

    def rotated(self) -> Self:
        """Return it with the next place in front."""
        return replace(self, places=(*self.places[1:], self.first))


def parse(url: str) -> Address:
    """Read a URL.

    Raises:
        BadStoreURL: Something in it means nothing here. The message does not show the password.
    """
    parts = urlsplit(url)
    is_tls, is_sentinel = parts.scheme.startswith("rediss"), parts.scheme.endswith("+sentinel")
    names, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = names.partition(":")
    service, database = _path(parts.path, is_sentinel=is_sentinel)
    if parts.fragment:
        raise BadStoreURL(f"After its host, a Redis URL has the number of a database and options; {_USE}.")
    options = _options(parts.query, is_tls=is_tls, is_sentinel=is_sentinel)
    port = _SENTINEL_PORT if is_sentinel else _PORT
    return Address(
        places=tuple(_place(host, port) for host in (hosts or "localhost").split(",")),
        service=service,
        database=database,
        user=unquote(user) or None,
        password=unquote(password) if colon else None,
        sentinel_password=options.get("sentinel_password"),
        tls=_tls(options) if is_tls else None,
        prefix=_prefix(options.get("prefix", "coatcheck")),
    )


def _place(text: str, default: int) -> Place:
    try:
        parts = urlsplit(f"//{text}")
        host, port = unquote(parts.hostname or ""), parts.port or default
    except ValueError:
        host, port = "", 0
    if not host:
        raise BadStoreURL(f"The host or port of this Redis URL cannot be read; {_USE}.")
    return host, port


def _path(path: str, *, is_sentinel: bool) -> tuple[str | None, int]:
    """Return the service and the database."""
    service, database = None, path.strip("/")
    if is_sentinel:
        service, _, database = database.partition("/")
        if not service:
            raise BadStoreURL(f"After its hosts, such a URL has the service that sentinels watch; {_USE_SENTINEL}.")
    if "@" in path or (database and not database.isdecimal()):
        use = _USE_SENTINEL if is_sentinel else _USE
        raise BadStoreURL(f"After its host, a Redis URL has the number of a database and options; {use}.")
    return service and unquote(service), int(database or 0)


def _options(query: str, *, is_tls: bool, is_sentinel: bool) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    known = ("prefix", *(_TLS_OPTIONS if is_tls else ()), *(("sentinel_password",) if is_sentinel else ()))
    for name, _ in pairs:
        if name in _TLS_OPTIONS and not is_tls:
            raise BadStoreURL(f"The option {name} is for rediss:// only; use that, or leave it out.")
        if name not in known and "@" in query:  # it may be the rest of a password
            raise BadStoreURL(f"A Redis URL has no such option; use {', '.join(known)}, and %3F for a ? in a password.")
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
