"""A real S3 server on this machine (moto's), with the faults that real ones have."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import moto.s3.models
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

Answer = Iterable[bytes]
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test-secret", "region_name": "us-east-1"}
NO_SUCH_UPLOAD = b"<Error><Code>NoSuchUpload</Code></Error>"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log(self, *_: Any) -> None:
        pass


class S3Server:
    """Its writes come one after the other, as those to one key do at S3."""

    def __init__(self) -> None:
        self.busy_for = 0
        """So many requests are answered by 503 SlowDown."""
        self.cut_for = 0
        """So many answers to reads break off in the middle."""
        self.refuse_with = ""
        """With this error code, by 403, all requests are."""
        self.ignores_conditions = False
        self.pass_moment: Callable[[], object] = lambda: None
        """Called when a request has come, and again when it is done and not yet answered."""
        self.requests: list[str] = []
        self._app = DomainDispatcherApplication(create_backend_app)
        self._writes = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.client = boto3.client("s3", endpoint_url=self.url, **KEYS)

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Answer:
        self.pass_moment()
        answer = list(self._done(environ, start))
        self.pass_moment()
        return answer

    def _done(self, environ: dict[str, Any], start: Callable[..., Any]) -> Answer:
        method = environ["REQUEST_METHOD"]
        self.requests.append(f"{method} {environ['PATH_INFO']}?{environ['QUERY_STRING']}")
        if self.refuse_with:
            refusal = f"<Error><Code>{self.refuse_with}</Code></Error>".encode()
            start("403 Forbidden", [("Content-Length", str(len(refusal)))])
            return [refusal]
        if self.busy_for:
            self.busy_for -= 1
            start(
                "503 Slow Down",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(SLOW_DOWN)))],
            )
            return [SLOW_DOWN]
        if self.ignores_conditions:
            for name in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"):
                environ.pop(name, None)
        if method not in ("GET", "HEAD"):
            with self._writes:
                return self._written(environ, start)
        answer = list(self._app(environ, start))
        if method == "GET" and self.cut_for and sum(map(len, answer)) > 1000:
            self.cut_for -= 1
            return [b"".join(answer)[:500]]
        return answer

    def _written(self, environ: dict[str, Any], start: Callable[..., Any]) -> Answer:
        """Answer as S3 that there is no such upload any more; moto itself fails there."""
        try:
            return list(self._app(environ, start))
        except KeyError:
            if "uploadId=" not in environ["QUERY_STRING"]:
                raise
            start("404 Not Found", [("Content-Length", str(len(NO_SUCH_UPLOAD)))])
            return [NO_SUCH_UPLOAD]

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def keys(self, bucket: str) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {one["Key"] for page in pages for one in page.get("Contents", ())}

    def uploads(self, bucket: str) -> list[str]:
        found = self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", ())
        return [one["Key"] for one in found]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    moto.s3.models.S3_UPLOAD_PART_MIN_SIZE = 1
    server = S3Server()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
