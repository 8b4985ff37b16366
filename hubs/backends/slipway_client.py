"""A model on another Slipway to which a version is sent, over its REST API (`docs/openapi.yaml` there)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx2
import orjson

from hubs.backends.base import (
    HubError,
    HubMisbehaves,
    HubStorageFull,
    HubTokenRefused,
    HubUnreachable,
    MayNotWrite,
    NoSuchRepository,
    RateLimited,
)
from hubs.backends.connection import HubConnection
from hubs.backends.responses import wait_seconds
from model_store.file_manifest import ManifestFile
from model_store.paths import printable
from slipway.runs import ContentPart

MAX_ANSWER_BYTES = 16 * 1024 * 1024
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}

Document = dict[str, Any]


class SlipwayClient:
    """Every method raises HubError. Safe from several threads."""

    def __init__(self, endpoint: str, model: str, *, token: str, trusted_hosts: Collection[str]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._model = model
        self._where = f"{model} on {self._endpoint}"
        self._secret_headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = HubConnection(trusted_hosts=trusted_hosts)

    def exists(self) -> bool:
        return self._asked("GET", f"models/{quote(self._model)}/", may_lack=True) is not None

    def create(self, *, task: str) -> None:
        wanted = {"name": self._model} | ({"task": task} if task else {})
        self._asked("POST", "models/", orjson.dumps(wanted), also={409})

    def version(self, reference: str) -> Document | None:
        """Return the version of this name or digest, or None."""
        return self._asked("GET", f"{self._versions}{quote(reference, safe='')}/", may_lack=True)

    def begin(self, files: Sequence[ManifestFile], *, origin: str) -> Document:
        """The upload of these files: a new one, or what is left of one that broke off."""
        listed = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in files]
        body = orjson.dumps({"files": listed, "origin": origin})
        return self._document(self._asked("POST", self._uploads, body))

    def upload(self, upload_id: int) -> Document:
        return self._document(self._asked("GET", f"{self._uploads}{upload_id}/"))

    def send(self, upload_id: int, part: ContentPart, body: bytes) -> None:
        path = f"{self._uploads}{upload_id}/blobs/{part.sha256}/"
        self._asked("PUT", path, body, headers=part.headers(body))

    def complete(self, upload_id: int, *, message: str, lineage: Mapping[str, Any]) -> Document:
        """The version that is made of it; asked again, the same."""
        body = orjson.dumps({"message": message, "lineage": lineage})
        return self._document(self._asked("POST", f"{self._uploads}{upload_id}/complete/", body))

    @property
    def _versions(self) -> str:
        return f"models/{quote(self._model)}/versions/"

    @property
    def _uploads(self) -> str:
        return f"models/{quote(self._model)}/uploads/"

    def _asked(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] = _JSON,
        may_lack: bool = False,
        also: Collection[int] = (),
    ) -> Document | None:
        answer, told = self._connection.send(
            method,
            f"{self._endpoint}/api/v1/{path}",
            secret_headers=self._secret_headers,
            headers={"Accept": "application/json", **headers},
            content=body,
            limit_bytes=MAX_ANSWER_BYTES,
        )
        if answer.status_code == 404 and may_lack:
            return None
        if answer.status_code not in (200, 201, 202, 204, *also):
            raise self._meant(answer, told)
        try:
            document = orjson.loads(told)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise HubMisbehaves(f"{self._endpoint} does not answer like a Slipway. Check the endpoint.")
        return document

    def _meant(self, answer: httpx2.Response, body: bytes) -> HubError:
        status, words = answer.status_code, _words(body)
        if status == 429:
            return RateLimited(wait_seconds(answer))
        if status == 401:
            return HubTokenRefused(
                f"{self._endpoint} does not accept the token. {words} Give the export another one."
            )
        if status == 403:
            return MayNotWrite(f"The token may not write to {self._where}. {words}".strip())
        if status == 404:
            return NoSuchRepository(f"There is no model {self._where}, or the token gives no access to it.")
        if status in (409, 507) and ("may hold" in words or "full" in words):
            return HubStorageFull(f"{self._endpoint} has no room for it: {words}")
        if status >= 500 or status == 408:
            return HubUnreachable(f"{self._endpoint} has a fault of its own (HTTP {status}). {words}".strip())
        return HubError(
            f"{self._endpoint} does not take it (HTTP {status}): {words or 'it does not say why.'}"
        )

    def _document(self, found: Document | None) -> Document:
        assert found is not None  # noqa: S101 (only what may lack is None)
        return found


def _words(body: bytes) -> str:
    """Return the text of a problem document (RFC 9457)."""
    try:
        told = orjson.loads(body)
        return printable(str(told.get("detail", "")))[:500]
    except (ValueError, AttributeError):
        return ""
