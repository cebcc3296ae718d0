"""Servers that are not there, do not let us in, or are none: one sentence, exit code 3, no traceback."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cli.caller import Caller, Done

pytestmark = pytest.mark.slow


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that break off are what this is about."""


class Handler(BaseHTTPRequestHandler):
    status, kind, body = 200, "text/html", b"<html>Welcome</html>"

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_request(self, code: object = "-", size: object = "-") -> None: ...


@contextmanager
def answering(
    status: int, body: bytes, kind: str = "text/html", context: ssl.SSLContext | None = None
) -> Generator[str]:
    handler = type("Fixed", (Handler,), {"status": status, "body": body, "kind": kind})
    with QuietServer(("127.0.0.1", 0), handler) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join()


def refused(done: Done, code: int = 3) -> str:
    assert (done.code, done.out) == (code, ""), done
    return done.sentence


def test_nobody_listens(coatcheck: Caller) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
        said = refused(coatcheck("call", url, "add", "a=1"))
    assert said.startswith(f"Cannot connect to {url}")
    assert refused(coatcheck("tools", "http://nowhere.invalid/mcp")).startswith(
        "Cannot connect to http://nowhere.invalid/mcp"
    )


def test_a_certificate_that_nobody_vouches_for(coatcheck: Caller, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    with answering(200, b"{}", "application/json", context) as url:
        said = refused(coatcheck("call", url, "add", "a=1"))
    assert "certificate" in said.lower()


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_not_let_in(status: int, coatcheck: Caller) -> None:
    with answering(status, b"no") as url:
        said = refused(coatcheck("call", url, "add", "a=1", "--token", "wrong"))
    assert f"(HTTP {status})" in said
    assert "wrong" not in said


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"<html>Welcome</html>", "text/html"),
        (404, b"<html>Nothing here</html>", "text/html"),
        (404, b'{"detail": "Not Found"}', "application/json"),
        (500, b"Oh no", "text/plain"),
        (200, b'{"hello": "world"}', "application/json"),
        (200, b"", "application/json"),
    ],
)
def test_what_is_no_mcp_server(status: int, body: bytes, kind: str, coatcheck: Caller) -> None:
    with answering(status, body, kind) as url:
        assert url in refused(coatcheck("call", url, "add", "a=1"))


def test_a_failure_is_told_to_programs_too(coatcheck: Caller) -> None:
    with answering(401, b"no") as url:
        done = coatcheck("call", url, "add", "a=1", "--json")
    assert done.code == 3
    assert done.json == {
        "id": None,
        "error": {"type": "NotAuthorized", "message": done.sentence, "exit_code": 3},
    }


def test_a_command_that_is_not_there(coatcheck: Caller) -> None:
    assert "no_such_command" in refused(coatcheck("call", "no_such_command --stdio", "add", "a=1"))
    assert "no_such_command" in refused(coatcheck("call", "no_such_command", "add", "a=1"), code=2)


@pytest.mark.parametrize("program", ["import sys; sys.exit('no database')", "raise SystemExit(3)", "print('Welcome!')"])
def test_a_command_that_ends_at_once(program: str, coatcheck: Caller) -> None:
    assert "python" in refused(coatcheck("call", f'{sys.executable} -c "{program}"', "add", "a=1"))


def test_a_server_that_never_answers(coatcheck: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coatcheck.cli.visit._CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        assert "no answer within 0.3 seconds" in refused(coatcheck("call", url, "add", "a=1"))


def self_signed(folder: Path) -> Path:
    """Write a key and a certificate that it signed itself; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "certificate.pem"
    file.write_bytes(private + certificate.public_bytes(pem))
    return file
