"""What a URL says: which server, which schema, and how to name both without the password."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from coatcheck.errors import BadStoreURL

_DEFAULT_SCHEMA = "coatcheck"
_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,39}")
"""Short enough for the channels that are named after it: PostgreSQL allows 63 bytes."""


class Target(NamedTuple):
    address: str
    """What the driver gets: the URL without what is ours."""
    schema: str
    name: str
    """What people get to see."""
    secrets: tuple[str, ...]

    def without_secrets(self, text: object) -> str:
        said = str(text)
        for secret in self.secrets:
            said = said.replace(secret, "***")
        return said


def read_url(url: str) -> Target:
    """Take our options out of the URL; the others are the driver's.

    Raises:
        BadStoreURL: It cannot be read, or names no schema that could be.
    """
    parts = urlsplit(url)
    # What was meant as a password must not be taken for a host, which is shown.
    if "@" in parts.path or "@" in parts.fragment or ("@" in parts.query and not parts.path and ":" in parts.netloc):
        raise BadStoreURL("The PostgreSQL URL cannot be read; write / ? # @ in a password as %2F %3F %23 %40.")
    try:
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise BadStoreURL(
            "The options of a PostgreSQL URL cannot be read; write them as ?schema=coatcheck&sslmode=require."
        ) from None
    schema = dict(options).get("schema", _DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise BadStoreURL(
            f"{schema!r} cannot be the schema; use up to 40 letters, digits and underscores, not starting with pg_."
        )
    rest = urlencode([(key, value) for key, value in options if key != "schema"])
    secrets = _secrets(parts, dict(options))
    name = f"PostgreSQL at {_place(parts)}, schema {schema}"
    return Target(parts._replace(query=rest, fragment="").geturl(), schema, name, secrets)


def _place(parts: SplitResult) -> str:
    hosts = parts.netloc.rpartition("@")[2] or "localhost"
    return f"{hosts}{parts.path}"


def _secrets(parts: SplitResult, options: dict[str, str]) -> tuple[str, ...]:
    password = parts.netloc.rpartition("@")[0].partition(":")[2]
    hidden = {password, unquote(password), options.get("password", ""), options.get("sslpassword", "")}
    return tuple(sorted(hidden - {""}, key=len, reverse=True))
