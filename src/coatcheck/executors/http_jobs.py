"""`HttpJobs`: an executor for job APIs over HTTP, and the hooks to fit it to yours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from coatcheck.errors import CoatcheckError, InvalidArgument
from coatcheck.executor import ExecutorUnavailable, JobNotFound, JobRefused, JobRequest, JobStatus
from coatcheck.executors.fields import Fields
from coatcheck.executors.wire import Answer, Wire, check_headers

Headers = Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]]
"""Headers of every request, or what returns them: asked before each, so that tokens may be renewed.

An error of its own is not shown, and it is asked again; a JobRefused is final.
"""
_NO_ADDRESS = "The URL of a job API must be like 'https://jobs.example.com/v1'."
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Method and path of each request, below the API's URL, with `{id}`, `{key}` and `{question}` in them."""

    submit: str = "POST jobs"
    status: str = "GET jobs/{id}"
    cancel: str = "DELETE jobs/{id}"
    attach: str | None = "GET jobs/by-key/{key}"
    """None: the API cannot find a job by its key. Then a job is found by submitting it again under that key."""
    answer: str | None = "PUT jobs/{id}/answers/{question}"

    def __post_init__(self) -> None:
        for name in self.__slots__:
            route: str | None = getattr(self, name)
            method, _, path = (route or "GET x").partition(" ")
            try:
                path.format(id="", key="", question="")
            except (LookupError, ValueError):
                path = ""
            if not method.isalpha() or not method.isupper() or not path or path.startswith("/") or "//" in path:
                raise InvalidArgument(f"{name} must be like 'GET jobs/{{id}}', but it is {route!r}.")


def body_of(request: JobRequest) -> dict[str, Any]:
    """Return what is sent to start a job."""
    body = {"name": request.name, "arguments": request.arguments}
    return body if request.deadline is None else {**body, "deadline": request.deadline.isoformat()}


class HttpJobs:
    """Jobs at a URL. See docs/executors.md for what is sent and what is expected."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        headers: Headers | None = None,
        routes: Routes = Routes(),
        fields: Fields = Fields(),
        write: Callable[[JobRequest], Any] = body_of,
        read: Callable[[Any], JobStatus] | None = None,
        timeout: float = 30.0,
        max_bytes: int = 32 * 2**20,
        tls: SSLContext | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        """`write` makes the body that starts a job, `read` a status of an answer, in place of `fields`.

        `timeout`: seconds an answer may keep us waiting beyond what it was asked to. `allow_plain_http`: also send
        `headers` without TLS to other hosts than this one.
        """
        _check_url(url, has_secrets=bool(headers) and not allow_plain_http)
        if headers is not None and not callable(headers):
            check_headers(headers)
        self._name = name or url.partition("//")[2].strip("/")
        self._url = f"{url.rstrip('/')}/"
        self._headers: Headers = {} if headers is None else headers
        self._routes, self._fields, self._write, self._read = routes, fields, write, read or fields.status
        self._wire = Wire(timeout, max_bytes, tls)

    @property
    def name(self) -> str:
        return self._name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. They are opened again should anyone ask for anything."""
        await self._wire.aclose()

    async def submit(self, request: JobRequest) -> str:
        keyed = {"idempotency-key": request.key}
        answer = await self._ask(self._routes.submit, key=request.key, body=self._write(request), more=keyed)
        if answer.status == 409:  # it is there already, or just being made
            said = answer.said_or_nothing()
            if found := await self.attach(request.key) if self._routes.attach else self._fields.job_id(said):
                return found
            raise ExecutorUnavailable(self._words(answer), answer.retry_after)
        if not answer.is_success:
            raise self._refusal(answer)
        if (job_id := self._fields.job_id(answer.said())) is None:
            raise JobRefused(f"{self._name} did not say which job it has started, if any")
        return job_id

    async def status(self, job_id: str, *, wait: float = 0.0, since: JobStatus | None = None) -> JobStatus:
        # Without a tag to compare with, what changed between two requests would be told only after a wait.
        waits = wait >= 1 and since is not None and since.tag is not None
        held = {"prefer": f"wait={wait:.0f}", "if-none-match": since.tag or ""} if waits and since else {}
        answer = await self._ask(self._routes.status, id=job_id, more=held, wait=wait if waits else 0.0)
        if answer.status == 304 and since:
            return since
        if answer.status in (404, 410):
            raise JobNotFound(self._words(answer))
        self._require(answer)
        status = self._read(answer.said())
        wish = answer.retry_after if status.look_again_after is None else status.look_again_after
        return replace(status, tag=answer.tag, look_again_after=wish)

    async def cancel(self, job_id: str) -> None:
        answer = await self._ask(self._routes.cancel, id=job_id)
        if answer.status not in (404, 409, 410):
            self._require(answer)

    async def attach(self, key: str) -> str | None:
        if self._routes.attach is None:
            return None
        answer = await self._ask(self._routes.attach, key=key)
        if answer.status in (401, 403):
            self._require(answer)
        return self._fields.job_id(answer.said()) if answer.is_success else None

    async def answer(self, job_id: str, question: str, answer: Mapping[str, Any]) -> None:
        if self._routes.answer is None:
            raise JobRefused(f"{self._name} takes no answers, as there is no route for them")
        told = await self._ask(self._routes.answer, id=job_id, question=question, body=answer)
        if told.status not in (404, 409, 410):  # it has had one, or wants none any more
            self._require(told)

    async def _ask(
        self,
        route: str,
        *,
        body: Any = None,
        more: Mapping[str, str] | None = None,
        wait: float = 0.0,
        **names: str,
    ) -> Answer:
        method, _, path = route.partition(" ")
        quoted = {name: quote(value, safe="") for name, value in names.items()}
        headers = await self._made(self._headers) if callable(self._headers) else self._headers
        url = self._url + path.format_map(quoted)
        return await self._wire.ask(method, url, {**headers, **(more or {})}, body, wait)

    async def _made(self, make: Callable[[], Awaitable[Mapping[str, str]]]) -> Mapping[str, str]:
        """Return the headers. That they cannot be had just now is nothing to give up a job for."""
        try:
            return await make()
        except CoatcheckError:
            raise
        except Exception as error:  # whose words may show a secret
            what = f"The headers for {self._name} cannot be had just now ({type(error).__name__})"
            raise ExecutorUnavailable(what) from error

    def _require(self, answer: Answer) -> None:
        """Raises what an answer means that is none, for a job that is under way.

        That we are not let in is nothing to give it up for: whoever runs the place can mend it.
        """
        if answer.status in (401, 403):
            raise ExecutorUnavailable(self._words(answer), answer.retry_after)
        if not answer.is_success:
            raise self._refusal(answer)

    def _refusal(self, answer: Answer) -> JobRefused:
        error = self._fields.failure(answer.said_or_nothing())
        return JobRefused(self._words(answer), error.code if error else None, error.data if error else None)

    def _words(self, answer: Answer) -> str:
        error = self._fields.failure(answer.said_or_nothing())
        reason = f": {error.message}" if error else ""
        return f"{self._name} answered with HTTP {answer.status}{reason}"


def _check_url(url: str, *, has_secrets: bool) -> None:
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise InvalidArgument(_NO_ADDRESS) from error
    if not is_address or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise InvalidArgument(_NO_ADDRESS)
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument("Leave the password out of the URL, where it would be shown; put it into headers.")
    if has_secrets and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InvalidArgument(
            f"Headers for {parts.hostname} could be read on their way; use https, or say allow_plain_http=True."
        )
