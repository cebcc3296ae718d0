"""Asking an issuer for its keys: bounded in time and size, never redirected, in plain text on this host only."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLContext
from typing import Any, cast

import httpx2
import msgspec

from coatcheck.errors import InvalidArgument
from coatcheck.server.access.tokens.keyset import NoKeys

_SECONDS = 10.0
"""For all that has to be asked, one after the other."""
_MAX_BYTES = 512 * 1024
_DOCUMENTS = ("openid-configuration", "oauth-authorization-server")


class _NotThere(NoKeys):
    """There is no such document."""


class Issuer:
    """Where keys are fetched: at the address that was given, or the one in the issuer's own metadata."""

    def __init__(self, name: str, keys_url: str | None = None) -> None:
        self.name, self._keys_url = name, keys_url
        check_url("issuer", name)
        if keys_url is not None:
            check_url("jwks", keys_url)

    async def fetch(self) -> Any:
        """Return the key set, as it came.

        Raises:
            NoKeys: It could not be had; the reason quotes nothing but addresses.
        """
        try:
            async with asyncio.timeout(_SECONDS), httpx2.AsyncClient(verify=_tls(), timeout=_SECONDS) as http:
                return await _get(http, self._keys_url or await self._discover(http))
        except TimeoutError as error:
            raise NoKeys(f"it did not answer within {_SECONDS:.0f} s") from error

    async def _discover(self, http: httpx2.AsyncClient) -> str:
        """Return the address of the keys, of the first metadata that is the issuer's own."""
        found: str | None = None
        for url in _addresses(self.name):
            try:
                metadata = await _get(http, url)
            except _NotThere:
                continue
            found = url
            if isinstance(metadata, Mapping) and cast("Mapping[str, Any]", metadata).get("issuer") == self.name:
                return self._keys_of(cast("Mapping[str, Any]", metadata), url)
        raise NoKeys(
            f"{found} is of another issuer" if found else "it has no metadata; give the URL of its keys as jwks"
        )

    def _keys_of(self, metadata: Mapping[str, Any], url: str) -> str:
        keys_url = metadata.get("jwks_uri")
        if not isinstance(keys_url, str) or _wrong_with(keys_url):
            raise NoKeys(f"{url} has no usable jwks_uri")
        # What is allowed on this host is so for an issuer that is on it, not for one that points to it.
        if _is_plain(keys_url) and not _is_plain(self.name):
            raise NoKeys(f"{url} has a jwks_uri without TLS")
        return keys_url


def check_url(name: str, url: str) -> None:
    """Raises InvalidArgument if keys must not be fetched from, or on behalf of, such an address."""
    if reason := _wrong_with(url):
        raise InvalidArgument(f"{name} must be the https URL of an issuer of tokens, but it {reason}.")


def _wrong_with(url: str) -> str | None:
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        return "is no URL"
    if parsed.userinfo or parsed.fragment:
        return "has a user or a fragment in it"
    if parsed.scheme == "https" and parsed.host:
        return None
    if parsed.scheme == "http" and _is_loopback(parsed.host):
        return None
    return "is no https URL; http is for loopback addresses"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_plain(url: str) -> bool:
    return httpx2.URL(url).scheme == "http"


def _addresses(issuer: str) -> list[str]:
    """Return where an issuer's metadata may be: behind its path, as OpenID has it, or before, as RFC 8414."""
    parsed = httpx2.URL(issuer)
    path = parsed.path.rstrip("/")
    behind = {name: f"{path}/.well-known/{name}" for name in _DOCUMENTS}
    before = {name: f"/.well-known/{name}{path}" for name in _DOCUMENTS}
    openid, oauth = _DOCUMENTS
    paths = (behind[openid], before[openid], before[oauth], behind[oauth])
    return [str(parsed.copy_with(path=path, query=None)) for path in dict.fromkeys(paths)]


async def _get(http: httpx2.AsyncClient, url: str) -> Any:
    # Not compressed, or a small answer could become a large one before it is counted.
    request = http.build_request("GET", url, headers={"accept": "application/json", "accept-encoding": "identity"})
    try:
        response = await http.send(request, stream=True, follow_redirects=False)
        try:
            if response.status_code != 200:
                kind = _NotThere if 400 <= response.status_code < 500 else NoKeys
                raise kind(f"{url} was answered with HTTP {response.status_code}")
            content = await _content(response, url)
        finally:
            await response.aclose()
    except httpx2.HTTPError as error:
        raise NoKeys(f"{url} was not answered ({type(error).__name__})") from error
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NoKeys(f"{url} was answered with something other than JSON") from error


async def _content(response: httpx2.Response, url: str) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > _MAX_BYTES:
            raise NoKeys(f"{url} was answered with more than {_MAX_BYTES} bytes")
    return bytes(content)


@lru_cache(maxsize=1)
def _tls() -> SSLContext:
    return httpx2.create_ssl_context()
