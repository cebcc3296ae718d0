"""What `HttpJobs` sends, what it understands, and what it does not do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coatcheck.executor import ExecutorUnavailable, JobNotFound, JobRefused, JobRequest, JobState
from coatcheck.executors import Fields, HttpJobs, Routes
from tests.executors.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

REQUEST = JobRequest(key="0123456789abcdef" * 2, name="render")
SECRET = "Bearer open-sesame"


async def test_a_redirect_is_not_followed(stage: Stage) -> None:
    elsewhere = {"status": 307, "headers": {"location": f"{stage.url}/jobs/by-key/somewhere"}}
    await stage.break_next("submit", elsewhere)
    await stage.break_next("status", elsewhere)
    async with stage.executor() as executor:
        with pytest.raises(JobRefused, match="is redirected, which is not followed"):
            await executor.submit(REQUEST)
        with pytest.raises(JobRefused, match="is redirected, which is not followed"):
            await executor.status("job-1")
    assert await stage.asked("attach") == []


async def test_an_answer_that_is_too_large_is_not_read(stage: Stage) -> None:
    async with stage.executor(max_bytes=2000) as executor:
        job_id = await executor.submit(REQUEST)
        await stage.tell(job_id, state="succeeded", result="x" * 1000)
        assert (await executor.status(job_id)).result == "x" * 1000
        await stage.tell(job_id, result="x" * 3000)
        with pytest.raises(JobRefused, match="more than 2000 bytes, the most that is taken"):
            await executor.status(job_id)


async def test_an_id_stays_within_its_place_in_the_address(stage: Stage, executor: HttpJobs) -> None:
    with pytest.raises(JobNotFound):
        await executor.status("../../control/shown")
    with pytest.raises(JobNotFound):
        await executor.status("job-1?x=#y")
    for body in ('{"id": ".."}', '{"id": ""}', '{"id": "a\\nb"}', '{"id": true}', "[]", '{"id": "%s"}' % ("x" * 600)):
        await stage.break_next("submit", {"status": 200, "body": body})
        with pytest.raises(JobRefused, match="did not say which job"):
            await executor.submit(REQUEST)


@pytest.mark.parametrize(
    ("wish", "least", "most"),
    [("7", 7, 7), (timedelta(hours=1), 3000, 3600), (timedelta(hours=-1), 0, 0)],
    ids=["seconds", "a date", "a date that has passed"],
)
async def test_retry_after_is_heard(
    wish: str | timedelta, least: float, most: float, stage: Stage, executor: HttpJobs
) -> None:
    said = wish if isinstance(wish, str) else format_datetime(datetime.now(UTC) + wish, usegmt=True)
    await stage.break_next("submit", {"status": 429, "headers": {"retry-after": said}})
    with pytest.raises(ExecutorUnavailable) as raised:
        await executor.submit(REQUEST)
    assert raised.value.retry_after is not None
    assert least <= raised.value.retry_after <= most
    job_id = await executor.submit(REQUEST)
    await stage.break_next("status", {"status": 200, "body": "{}", "headers": {"retry-after": said}})
    assert least <= ((await executor.status(job_id)).look_again_after or 0) <= most


async def test_nonsense_in_retry_after_is_nothing(stage: Stage, executor: HttpJobs) -> None:
    for said in ("soon", "-1", "1e9", "inf", "Mon, 99 Foo"):
        await stage.break_next("submit", {"status": 503, "headers": {"retry-after": said}})
        with pytest.raises(ExecutorUnavailable) as raised:
            await executor.submit(REQUEST)
        assert raised.value.retry_after is None


async def test_waiting_is_asked_for_once_there_is_something_to_compare_with(stage: Stage, executor: HttpJobs) -> None:
    job_id = await executor.submit(REQUEST)
    status = await executor.status(job_id, wait=20)
    looking = asyncio.ensure_future(executor.status(job_id, wait=20, since=status))
    await stage.until_asked("status", 2)
    await stage.tell(job_id, message="News")
    assert (await looking).message == "News"
    first, second = await stage.asked("status")
    assert "prefer" not in first["headers"]
    assert (second["headers"]["prefer"], second["headers"]["if-none-match"]) == ("wait=20", status.tag)


async def test_headers_may_be_made_anew_for_every_request(stage: Stage) -> None:
    tokens = iter(("first", "second"))

    async def headers() -> Mapping[str, str]:
        return {"authorization": next(tokens)}

    async with HttpJobs(stage.url, headers=headers) as executor:
        await executor.status(await executor.submit(REQUEST))
    asked = [*await stage.asked("submit"), *await stage.asked("status")]
    assert [entry["headers"]["authorization"] for entry in asked] == ["first", "second"]


async def test_a_tag_that_cannot_be_sent_back_is_none(stage: Stage, executor: HttpJobs) -> None:
    job_id = await executor.submit(REQUEST)
    await stage.break_next("status", {"status": 200, "body": "{}", "headers": {"etag": '"caf\u00e9"'}})
    status = await executor.status(job_id)
    await stage.tell(job_id, message="News")
    assert (await executor.status(job_id, wait=20, since=status)).message == "News"


async def test_headers_that_cannot_be_had_are_waited_for_and_nothing_of_that_is_shown(stage: Stage) -> None:
    troubles = [RuntimeError(SECRET), OSError(SECRET)]

    async def headers() -> Mapping[str, str]:
        if troubles:
            raise troubles.pop()
        return {}

    async with HttpJobs(stage.url, name="farm", headers=headers) as executor:
        for kind in ("OSError", "RuntimeError"):
            with pytest.raises(ExecutorUnavailable) as raised:
                await executor.submit(REQUEST)
            assert str(raised.value) == f"The headers for farm cannot be had just now ({kind})"
        await executor.submit(REQUEST)


async def test_whoever_makes_headers_may_refuse(stage: Stage) -> None:
    async def headers() -> Mapping[str, str]:
        raise JobRefused("The token was revoked")

    async with HttpJobs(stage.url, headers=headers) as executor:
        with pytest.raises(JobRefused, match="was revoked"):
            await executor.submit(REQUEST)


async def test_no_secret_is_told(stage: Stage) -> None:
    async def headers() -> Mapping[str, str]:
        return {"authorization": f"{SECRET}\n"}

    async with HttpJobs(stage.url, headers=headers) as executor:
        assert "sesame" not in repr(executor)
        with pytest.raises(JobRefused) as raised:
            await executor.submit(REQUEST)
        assert "sesame" not in str(raised.value)
    await stage.kill()
    async with HttpJobs(stage.url, headers={"authorization": SECRET}) as executor:
        with pytest.raises(ExecutorUnavailable) as trouble:
            await executor.submit(REQUEST)
        assert "sesame" not in str(trouble.value)


async def test_a_conflict_is_a_job_that_is_there_or_soon_will_be(stage: Stage, executor: HttpJobs) -> None:
    await stage.break_next("submit", {"status": 409}, {"is_done": True, "status": 409})
    with pytest.raises(ExecutorUnavailable):
        await executor.submit(REQUEST)
    job_id = await executor.submit(REQUEST)
    assert (await stage.job())["id"] == job_id


async def test_a_conflict_may_say_itself_which_job_is_there(stage: Stage) -> None:
    there = {"status": 409, "body": '{"id": "job-7"}'}
    await stage.break_next("submit", there, {"status": 409}, there)
    async with stage.executor(routes=Routes(attach=None)) as executor:
        assert await executor.submit(REQUEST) == "job-7"
        with pytest.raises(ExecutorUnavailable):
            await executor.submit(REQUEST)
    async with stage.executor() as executor:
        with pytest.raises(ExecutorUnavailable):  # where jobs are found by their keys, this one is not there yet
            await executor.submit(REQUEST)


async def test_an_api_that_finds_nothing_by_key_is_no_obstacle(stage: Stage) -> None:
    async with stage.executor(routes=Routes(attach=None)) as executor:
        await executor.submit(REQUEST)
        assert await executor.attach(REQUEST.key) is None
    for status in (400, 404, 405, 410):
        async with stage.executor() as executor:
            await stage.break_next("attach", {"status": status})
            assert await executor.attach(REQUEST.key) is None


async def test_routes_and_fields_fit_another_api(stage: Stage) -> None:
    states = {"done": JobState.SUCCEEDED, "crashed": JobState.FAILED}
    fields = Fields(id="id", state="status.phase", states=states, result="out.0", error="why", message="status.note")
    routes = Routes(status="GET jobs/{id}?view=full", attach=None)

    def write(request: JobRequest) -> Any:
        return {"kind": request.name, "spec": request.arguments}

    async with stage.executor(fields=fields, routes=routes, write=write) as executor:
        job_id = await executor.submit(REQUEST)
        assert (await stage.job())["body"] == {"kind": "render", "spec": {}}
        await stage.tell(job_id, status={"phase": "Warming", "note": "Soon"})
        status = await executor.status(job_id)
        assert status.state is JobState.RUNNING
        assert status.message == "The job is in a state that is not known here: 'Warming'"
        await stage.tell(job_id, status={"phase": "Done"}, out=[42])
        assert (await executor.status(job_id)).result == 42
        await stage.tell(job_id, status={"phase": "crashed"}, why="No paper")
        status = await executor.status(job_id)
        assert status.error
        assert status.error.message == "No paper"


@pytest.fixture
async def self_signed(tmp_path: Path) -> AsyncGenerator[tuple[str, ssl.SSLContext]]:
    """A server whose certificate nobody vouches for, and what trusts it all the same."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=localhost")
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    pem, encoding = tmp_path / "pem", serialization.Encoding.PEM
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(encoding)
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem.write_bytes(private + certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 13\r\n\r\n{"id": "j-1"}')
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"https://localhost:{port}", ssl.create_default_context(cadata=certificate.decode())


async def test_certificates_are_verified(self_signed: tuple[str, ssl.SSLContext]) -> None:
    url, trusting = self_signed
    async with HttpJobs(url, headers={"authorization": SECRET}) as executor:
        with pytest.raises(ExecutorUnavailable, match=r"(?i)certificate"):
            await executor.submit(REQUEST)
    async with HttpJobs(url, headers={"authorization": SECRET}, tls=trusting) as executor:
        assert await executor.attach("k") == "j-1"
