"""Where a socket of ours leads: hosts, paths, proxies, certificates, and the headers that are said there."""

from __future__ import annotations

import datetime
import gc
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from coatcheck.client.lean_http import Broken, LeanHTTP, is_reachable_directly
from tests.client.scripted import Visit, scripted
from tests.client.test_lean_http import PLAIN, echo, reached

pytestmark = pytest.mark.anyio


async def test_the_host_may_be_an_address_of_ipv6() -> None:
    heard: list[str] = []

    async def script(visit: Visit) -> None:
        heard.append((await visit.heard()).headers["host"])
        await visit.say(PLAIN)

    async with scripted(script, host="::1") as server:
        http = LeanHTTP(server.url, {})
        assert (await http.post(b"{}", {})).status == 200
        http.close()
    assert heard == [f"[::1]:{server.port}"]


async def test_a_host_that_does_not_exist_is_no_crash() -> None:
    for host in ("nowhere.invalid", f"{'a' * 70}.invalid"):
        with pytest.raises(Broken) as refused:
            await LeanHTTP(f"http://{host}/mcp", {}).post(b"{}", {})
        assert not refused.value.was_sent


# Headers and URLs


@pytest.mark.parametrize("headers", [{"a": "b\r\nx: y"}, {"a": "b\nc"}, {"a\r\nx": "y"}])
async def test_a_header_of_two_lines_is_refused(headers: dict[str, str]) -> None:
    async with reached(echo) as (http, server):
        with pytest.raises(ValueError, match="header"):
            LeanHTTP(server.url, headers)
        with pytest.raises(ValueError, match="header"):
            await http.post(b"{}", headers)


async def test_a_header_that_is_refused_costs_no_connection() -> None:
    async with reached(echo) as (http, server):
        for headers in ({"a": "b\nc"}, {"a": "\u2028"}) * 5:
            with pytest.raises(ValueError, match=r"one line|can't encode"):
                await http.post(b"{}", headers)
        await http.post(b"{}", {})
        assert server.visits <= 1


async def test_a_path_is_written_as_a_url_has_it() -> None:
    lines: list[str] = []

    async def script(visit: Visit) -> None:
        lines.append((await visit.heard()).line)
        await visit.say(PLAIN)

    async with scripted(script) as server:
        for path in ("/a b", "/ü", "/→", "/a%20b"):
            http = LeanHTTP(server.url.replace("/mcp", path), {})
            await http.post(b"{}", {})
            http.close()
    assert lines == [f"POST {path} HTTP/1.1" for path in ("/a%20b", "/%C3%BC", "/%E2%86%92", "/a%20b")]


def test_what_needs_more_than_a_socket_goes_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert is_reachable_directly("http://example.com/mcp")
    assert not is_reachable_directly("http://me:secret@example.com/mcp")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "example.org")
    assert not is_reachable_directly("http://example.com/mcp")
    assert is_reachable_directly("https://example.com/mcp")
    assert is_reachable_directly("http://example.org/mcp")


def test_a_proxy_for_everything_is_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert not is_reachable_directly("http://example.com/mcp")


# TLS


def self_signed(folder: Path) -> ssl.SSLContext:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / "self.pem"
    file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_a_certificate_nobody_signed_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with scripted(echo, tls=self_signed(tmp_path)) as server:
        http = LeanHTTP(server.url, {})
        for _ in range(2):
            with pytest.raises(Broken) as refused:
                await http.post(b"{}", {})
            assert not refused.value.was_sent
            why = "certificate verify failed: self-signed certificate"
            assert str(refused.value) == f"no secure connection to 127.0.0.1:{server.port} ({why})"
        http.close()
    gc.collect()


async def test_a_server_without_tls_is_refused_with_a_sentence() -> None:
    async def script(visit: Visit) -> None:
        await visit.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await visit.until_left()

    async with scripted(script) as server:
        with pytest.raises(Broken, match="secure connection") as refused:
            await LeanHTTP(server.url.replace("http:", "https:"), {}).post(b"{}", {})
        assert not refused.value.was_sent
