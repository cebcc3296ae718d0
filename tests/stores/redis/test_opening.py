"""What is looked at when a store is opened, and what is said of it: in one line, with what to do."""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import hiredis
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.server.mcpserver import MCPServer

from coatcheck import BadStoreURL, new_key, open_store
from coatcheck.errors import StoreUnavailable, StoreUnusable
from coatcheck.server import Tasks
from coatcheck.stores.redis import link
from coatcheck.testing.builders import a_task
from tests.databases.fixtures import the_redis
from tests.databases.redis import Redis
from tests.stores.redis.helpers import ask, key, prefix_of
from tests.stores.served.helpers import CLAIMED, keep, refusal, through
from tests.stores.served.proxy import Proxy

pytestmark = pytest.mark.anyio


# URLs


@pytest.mark.parametrize(
    "end",
    [
        ":port/0",
        ":99999/0",
        "/zero",
        "/0/1",
        "/0#top",
        "/0?timeout=3",
        "/0?prefix=a&prefix=b",
        "/0?prefix=",
        "/0?prefix=a{b}",
        "/0?prefix=a b",
        "/0?ssl_ca_certs=ca.pem",
    ],
)
async def test_a_url_that_says_what_means_nothing_is_refused_without_its_password(end: str) -> None:
    assert "; use " in await refusal(f"redis://ann:secret@localhost{end}", BadStoreURL)


@pytest.mark.parametrize("scheme", ["redis", "redis+sentinel"])
@pytest.mark.parametrize("password", ["6?secret=it", "6/secret", "6#secret", "at@6?secret=it", "at@6/secret"])
async def test_a_password_that_was_not_escaped_is_not_shown(password: str, scheme: str) -> None:
    assert "; use " in await refusal(f"{scheme}://ann:{password}@localhost/0", BadStoreURL)


async def test_a_certificate_that_is_not_there_is_refused() -> None:
    said = await refusal("rediss://:secret@localhost/0?ssl_ca_certs=/nowhere/ca.pem", BadStoreURL)
    assert said.endswith("; check its path.")
    assert "; use required or none" in await refusal("rediss://localhost?ssl_cert_reqs=maybe", BadStoreURL)


async def test_all_keys_of_a_store_have_one_hash_tag(url: str) -> None:
    prefix = prefix_of(url)
    async with open_store(url, key=new_key()) as store:
        await keep(store, a_task(idempotency_key="k"), CLAIMED)
        await store.insert(a_task("b"))
        await store.waiting(("other",), limit=1, timeout=0.01)
    keys = {raw.decode() for raw in ask(url, "KEYS", f"*{prefix}*")}
    assert len(keys) > 8
    assert {key for key in keys if not key.startswith(f"{{{prefix}}}:")} == set()


# The server


async def test_a_wrong_password_is_refused_at_once(own_server: Redis) -> None:
    ask(own_server.address, "CONFIG", "SET", "requirepass", "right")
    place = own_server.url("x").removeprefix("redis://")
    for start in ("redis://", "redis://:secret@", "redis://ann:secret@"):
        assert "; put the right ones into the URL." in await refusal(f"{start}{place}", StoreUnavailable)
    async with open_store(f"redis://:right@{place}") as store:
        await store.insert(a_task())


@pytest.mark.parametrize("own_server", ["redis", "valkey"], indirect=True)
async def test_a_user_who_may_not_do_enough_is_told_which_rule_is_needed(own_server: Redis) -> None:
    place = own_server.url("x").removeprefix("redis://")
    ask(own_server.address, "ACL", "SETUSER", "ann", "on", ">secret", "~*", "resetchannels", "+@all")
    said = await refusal(f"redis://ann:secret@{place}", StoreUnavailable)
    assert said.endswith("; give it the rule: ~{x}:* &{x}:* +@all.")
    ask(own_server.address, "ACL", "SETUSER", "ann", "allchannels", "-hset")
    async with open_store(f"redis://ann:secret@{place}") as store:
        with pytest.raises(StoreUnavailable, match="give it the rule"):
            await store.insert(a_task())
    ask(own_server.address, "ACL", "SETUSER", "ann", "resetchannels", "+hset")
    ask(own_server.address, "ACL", "SETUSER", "ann", "resetkeys", "~{x}:*", "&{x}:*", "-info", "-client")
    async with open_store(f"redis://ann:secret@{place}") as store:
        task = await store.insert(a_task())
        assert await store.get("a", newer_than=1, timeout=0.01) == task


async def test_a_server_that_may_drop_tasks_is_warned_of(own_server: Redis, caplog: pytest.LogCaptureFixture) -> None:
    async with open_store(own_server.url("x")):
        pass
    ask(own_server.address, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    async with open_store(own_server.url("x")) as store:
        await store.get("a")
    assert caplog.messages == []
    ask(own_server.address, "CONFIG", "SET", "maxmemory", "1gb")
    async with open_store(own_server.url("x")) as store:
        await store.get("a")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "(maxmemory-policy allkeys-lru); set it to noeviction." in caplog.text


async def test_a_server_that_keeps_no_log_is_mentioned(own_server: Redis, caplog: pytest.LogCaptureFixture) -> None:
    ask(own_server.address, "CONFIG", "SET", "appendonly", "no")
    with caplog.at_level(logging.INFO, "coatcheck"):
        async with open_store(own_server.url("x")) as store:
            await store.get("a")
    assert "(appendonly no): if it is restarted, it forgets tasks." in caplog.text


async def test_who_only_sees_whether_a_store_can_be_opened_is_told_nothing(
    own_server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    ask(own_server.address, "CONFIG", "SET", "appendonly", "no")
    tasks = Tasks(store=own_server.url("x"))
    server = MCPServer("x", extensions=[tasks], lifespan=tasks.lifespan)
    with caplog.at_level(logging.INFO, "coatcheck"):
        await tasks.check(server)
        assert "(appendonly no)" not in caplog.text
        async with tasks.lifespan(server):
            pass
    assert caplog.text.count("(appendonly no)") == 1


@asynccontextmanager
async def a_server_that_says(raw: bytes) -> AsyncGenerator[str]:
    """Answer every command alike."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = hiredis.Reader()
        while data := await reader.read(1 << 16):
            commands.feed(data)
            while commands.gets() is not False:
                writer.write(raw)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_server_that_is_too_old_is_refused() -> None:
    async with a_server_that_says(b"$20\r\nredis_version:6.0.16\r\n") as url:
        assert await refusal(url, StoreUnusable) == f"{url}/0 is Redis 6.0.16; use Redis 6.2 or later, or Valkey."


async def test_what_is_no_redis_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_PATIENCE_SECONDS", 0.1)
    async with a_server_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        assert "what answers there is no Redis" in await refusal(url, StoreUnavailable)


# What is kept there


async def test_what_is_newer_or_not_ours_is_refused_and_not_touched(url: str) -> None:
    schema = key(url, "schema")
    for kept, said in (("coatcheck 2", "schema 2, and this version knows 1"), ("7", "something else than tasks")):
        ask(url, "SET", schema, kept)
        assert said in await refusal(url, StoreUnusable, new_key())
        assert ask(url, "KEYS", key(url, "*")) == [schema.encode()]
        assert ask(url, "GET", schema) == kept.encode()
    ask(url, "DEL", schema)
    ask(url, "HSET", schema, "a", "b")
    assert "not ours; use another name with ?prefix=" in await refusal(url, StoreUnusable)


# TLS


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for this host, in a file, and what a server needs to show it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime.now(UTC) - timedelta(days=1))
    builder = builder.not_valid_after(datetime.now(UTC) + timedelta(days=1)).add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    public, private = folder / "public.pem", folder / "private.pem"
    public.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(key.private_bytes(*form))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context


async def test_tls_trusts_whom_it_is_told_to(tmp_path: Path, url: str) -> None:
    public, context = certificate(tmp_path)
    async with Proxy(the_redis().process.port, context) as proxy:
        there = through(proxy.port, url).replace("redis://127.0.0.1", "rediss://localhost")
        assert "is not trusted (" in await refusal(there, StoreUnavailable)
        for option in (f"ssl_ca_certs={public}", "ssl_cert_reqs=none"):
            async with open_store(f"{there}&{option}") as store:
                task = await store.insert(a_task(option))
                assert await store.get(option, newer_than=1, timeout=0.01) == task
