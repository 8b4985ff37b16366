"""The REST API as a Python object: what the command line and pipelines written in Python use.

The HTTP client is imported with the first request: `--help` starts without it.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, quote, urlsplit

from slipway.exits import CommandFailed, Exit

if TYPE_CHECKING:
    import httpx2

Document = dict[str, Any]

FROZEN = "frozen"
"""Last part of the problem type of a service that a freeze window closes."""
IN_FLIGHT = "urn:slipway:problem:idempotency-in-flight"
"""The first request with this key is still at work: its answer comes soon."""
RETRY_SECONDS = (0.0, 1.0, 2.0)
"""Pauses before a creation whose answer was lost is asked for again."""
CHANGE_TRIES = 4
"""So often a change begins anew when somebody else was faster."""

SLOW_SECONDS = 300.0
LONGEST_RETRY_SECONDS = 120.0


class ServerRefused(CommandFailed):
    """The server said no; `problem` is its application/problem+json document (RFC 9457)."""

    def __init__(
        self, status: int, problem: Mapping[str, Any], *, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.problem = problem
        self.retry_after_s = retry_after_s
        super().__init__(_told(status, problem), _exit_of(status, problem))


class ServerUnreachable(CommandFailed):
    """Nobody answers, or something in between answers for a server that is down."""

    def __init__(self, url: str, reason: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(
            f"{url} cannot be reached: {reason}. Check that the server is running and that --url is right.",
            Exit.UNREACHABLE,
        )


@dataclass(frozen=True, slots=True)
class ApiPath:
    """A path below `/api/v1/`; made by `at`, so that no name in it leads elsewhere."""

    path: str

    def below(self, *segments: str | int) -> "ApiPath":
        """Raises CommandFailed."""
        return ApiPath(self.path + "".join(f"{_escaped(str(one))}/" for one in segments))


def at(*segments: str | int) -> ApiPath:
    """`at("models", "tiny", "versions", "v2")`, whoever chose the names. Raises CommandFailed."""
    return ApiPath("").below(*segments)


class Client:
    """A connection to one server by one token. Methods return decoded JSON.

    They raise ServerRefused and ServerUnreachable.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        transport: "httpx2.BaseTransport | None" = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises CommandFailed for an address or a token that cannot be one."""
        self.url = _checked_address(url)
        _check_token(token)
        import httpx2

        self._sleep = sleep
        self._http = httpx2.Client(
            base_url=f"{self.url}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=timeout,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, address: ApiPath, **params: Any) -> Document:
        return self._send("GET", address, params={k: v for k, v in params.items() if v not in (None, "")})

    def text(self, address: ApiPath, **params: Any) -> str:
        """Return a text that is no JSON, such as a manifest."""
        told = {key: value for key, value in params.items() if value not in (None, "")}
        return self._answer("GET", address, params=told, headers={"Accept": "*/*"}).text

    def content(self, address: ApiPath) -> bytes:
        """Return the bytes of a file."""
        return self._answer("GET", address, headers={"Accept": "*/*"}).content

    def create(self, address: ApiPath, body: Mapping[str, Any]) -> Document:
        """POST that happens once: a lost answer is asked for again under the same key."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        for pause_seconds in RETRY_SECONDS:
            try:
                return self._send("POST", address, json=dict(body), headers=headers)
            except ServerUnreachable:
                pass
            except ServerRefused as refused:
                if refused.problem.get("type") != IN_FLIGHT:
                    raise
            self._sleep(pause_seconds)
        return self._send("POST", address, json=dict(body), headers=headers)

    def post(self, address: ApiPath, body: Mapping[str, Any]) -> Document:
        return self._send("POST", address, json=dict(body))

    def follow(self, address: ApiPath, body: Mapping[str, Any]) -> Iterator[tuple[str, Document]]:
        """POST whose answer is server-sent events: the name and data of each, as soon as it is there."""
        import httpx2

        accepts = {"Accept": "text/event-stream, application/json"}
        try:
            with self._http.stream(
                "POST", address.path, json=dict(body), headers=accepts, timeout=SLOW_SECONDS
            ) as response:
                if response.is_error:
                    response.read()
                self._check(response)
                name = ""
                for line in response.iter_lines():
                    field, _, value = line.partition(": ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        yield name, json.loads(value)
        except httpx2.TransportError as error:
            raise ServerUnreachable(self.url, str(error) or type(error).__name__) from None

    def put(self, address: ApiPath, body: Mapping[str, Any]) -> Document:
        return self._send("PUT", address, json=dict(body))

    def put_bytes(self, address: ApiPath, content: bytes, headers: Mapping[str, str]) -> Document:
        """PUT of a file's bytes; the server may read much before it answers."""
        return self._send("PUT", address, content=content, headers=dict(headers), timeout=SLOW_SECONDS)

    def patch(self, address: ApiPath, body: Mapping[str, Any]) -> Document:
        return self._send("PATCH", address, json=dict(body))

    def change(self, address: ApiPath, changed: Callable[[Document], Mapping[str, Any]]) -> Document:
        """PATCH with what `changed` makes of the document as it is now, by If-Match: what somebody else
        changes meanwhile is not lost.
        """

        def once() -> Document:
            answer = self._answer("GET", address)
            body, headers = dict(changed(self._decoded(answer))), {"If-Match": answer.headers["ETag"]}
            return self._send("PATCH", address, json=body, headers=headers)

        return _until_nobody_was_first(once)

    def replace(self, address: ApiPath, changed: Callable[[Document | None], Mapping[str, Any]]) -> Document:
        """PUT with what `changed` makes of the document as it is now, None where there is none yet; guarded
        as `change` is."""

        def once() -> Document:
            try:
                answer = self._answer("GET", address)
            except ServerRefused as refused:
                if refused.status != 404:
                    raise
                present, headers = None, {"If-None-Match": "*"}
            else:
                present, headers = self._decoded(answer), {"If-Match": answer.headers["ETag"]}
            return self._send("PUT", address, json=dict(changed(present)), headers=headers)

        return _until_nobody_was_first(once)

    def delete(self, address: ApiPath, *, reason: str = "") -> Document:
        return self._send("DELETE", address, params={"reason": reason} if reason else {})

    def each(self, address: ApiPath, **params: Any) -> Iterator[Document]:
        """Every row of a list, page by page."""
        cursor = None
        while True:
            page = self.get(address, cursor=cursor, **params)
            yield from page["results"]
            if not page.get("next"):
                return
            # An address; only its cursor is taken, since a proxy may know the server by another name.
            cursor = parse_qs(urlsplit(page["next"]).query)["cursor"][0]

    def _send(self, method: str, address: ApiPath, **how: Any) -> Document:
        return self._decoded(self._answer(method, address, **how))

    def _answer(self, method: str, address: ApiPath, **how: Any) -> "httpx2.Response":
        import httpx2

        try:
            response = self._http.request(method, address.path, **how)
        except UnicodeEncodeError:
            raise CommandFailed("An argument is not valid UTF-8.", Exit.USAGE) from None
        except ValueError as error:
            if "JSON" not in str(error):
                raise
            raise CommandFailed("inf and nan are no numbers here: give finite ones.", Exit.USAGE) from None
        except httpx2.TransportError as error:
            raise ServerUnreachable(self.url, str(error) or type(error).__name__) from None
        self._check(response)
        return response

    def _check(self, response: "httpx2.Response") -> None:
        if response.status_code in (502, 503, 504):
            reason = f"HTTP status {response.status_code}"
            raise ServerUnreachable(self.url, reason, retry_after_s=_retry_after(response))
        if response.is_error:
            raise ServerRefused(
                response.status_code, _problem(response), retry_after_s=_retry_after(response)
            )

    def _decoded(self, response: "httpx2.Response") -> Document:
        if response.status_code == 204 or not response.content:
            return {}
        try:
            document = response.json()
        except ValueError:
            raise ServerUnreachable(self.url, "the response is not JSON") from None
        return document if isinstance(document, dict) else {"results": document}


def _until_nobody_was_first(once: Callable[[], Document]) -> Document:
    for _ in range(CHANGE_TRIES):
        try:
            return once()
        except ServerRefused as refused:
            if refused.status != 412:
                raise
    return once()


def _escaped(segment: str) -> str:
    """Escape one segment of a path, which stays one for every proxy and server. Raises CommandFailed."""
    # An escaped slash is one again before routes are matched, and dots are resolved escaped or not.
    if segment in ("", ".", "..") or not segment.isprintable() or {*"/\\"} & {*segment}:
        raise CommandFailed(
            f"{segment!r} is not a valid name: it is empty, '.' or '..', or has a slash or control code.",
            Exit.USAGE,
        )
    return quote(segment, safe="")


def _retry_after(response: "httpx2.Response") -> float | None:
    """Seconds that the server asks for; dates are not read, a pause of our own does."""
    told = response.headers.get("Retry-After", "")
    return min(float(told), LONGEST_RETRY_SECONDS) if told.isdecimal() else None


def _checked_address(url: str) -> str:
    import httpx2

    try:
        parts = httpx2.URL(url)
        fits = parts.scheme in ("http", "https") and bool(parts.host) and not {*"?#"} & {*url}
    except httpx2.InvalidURL:
        fits = False
    if not fits:
        raise CommandFailed(f"--url '{url}' is not a URL: use one such as http://127.0.0.1:8000.", Exit.USAGE)
    return url.rstrip("/")


def _check_token(token: str) -> None:
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise CommandFailed(
            "The API token contains spaces or other invalid characters: give the token and nothing else.",
            Exit.USAGE,
        )


def _problem(response: "httpx2.Response") -> Mapping[str, Any]:
    """Return the problem document of a response, with the request id of its headers."""
    problem: dict[str, Any] = {"title": response.reason_phrase}
    if "X-Request-ID" in response.headers:
        problem["request_id"] = response.headers["X-Request-ID"]
    try:
        document = response.json()
    except ValueError:
        return problem | {"detail": response.text[:300]}
    return problem | (document if isinstance(document, dict) else {})


def _told(status: int, problem: Mapping[str, Any]) -> str:
    told = str(problem.get("detail") or problem.get("title") or f"The server returned HTTP status {status}.")
    if status == 404 and (place := problem.get("instance")):
        # Whoever typed a command does not see the address that is meant.
        told = told.replace("It does not exist", f"{place} does not exist")
    faults = problem.get("errors")
    if isinstance(faults, Mapping):
        lines = [f"{field}: {_words(fault)}" for field, fault in faults.items()]
        if len(lines) == 1 and (told == lines[0] or told.startswith("See `errors`")):
            return lines[0]
        return "\n".join([told, *(f"  {line}" for line in lines)])
    if isinstance(faults, list):
        return "\n".join([told, *(f"  {_words(fault)}" for fault in faults)])
    name = str(problem.get("request_id") or "")
    return f"{told} Request id: {name}" if status >= 500 and name not in told else told


def _words(fault: Any) -> str:
    if isinstance(fault, list):
        return " ".join(_words(one) for one in fault)
    if isinstance(fault, Mapping):
        place = fault.get("field") or fault.get("pointer") or ""
        detail = fault.get("detail") or fault.get("message") or ""
        return f"{place}: {detail}" if place else str(detail or dict(fault))
    return str(fault)


def _exit_of(status: int, problem: Mapping[str, Any]) -> Exit:
    if str(problem.get("type", "")).rstrip("/").endswith(FROZEN):
        return Exit.FROZEN
    if status in (401, 403):
        return Exit.NOT_ALLOWED
    return Exit.USAGE if status in (400, 404, 405, 415, 422) else Exit.FAILED
