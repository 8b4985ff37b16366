"""The bucket in our words: the only file that knows boto3, its errors and its habits."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from model_store.backends.location import BucketLocation
from model_store.errors import StoreUnavailable

CONNECTIONS = 16
TRIES = 4
CONNECT_SECONDS, READ_SECONDS = 2, 20
_GONE = {"404", "NoSuchKey", "NoSuchUpload"}
_CHANGED = {"412", "PreconditionFailed", "ConditionalRequestConflict"}
_WRONG_KEYS = {
    "401",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_FORBIDDEN = {"403", "AccessDenied", "AccessDeniedException", "AllAccessDisabled"}
_BUSY = {"503", "SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "ThrottlingException"}

T = TypeVar("T")
U = TypeVar("U")


class ObjectGone(Exception):
    """There is no such object, or no such upload."""


class PreconditionFailed(Exception):
    """The object is not what it was expected to be: somebody else was first."""


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object, with its key below the place's prefix."""

    key: str
    size: int
    age_seconds: float
    """By the server's clock alone, which here tells whole seconds."""


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """An object as the server sees it; `age_seconds` as in `ListedObject`."""

    size: int
    etag: str
    age_seconds: float


class BucketClient:
    """Objects by keys below the prefix. Safe to use from several threads.

    Every method raises StoreUnavailable, after the retries of boto3's standard mode; those that look for one
    object raise ObjectGone, those with a condition raise PreconditionFailed.
    """

    def __init__(self, place: BucketLocation) -> None:
        self.place = place

    @property
    def _client(self) -> Any:
        return _client(self.place.endpoint, self.place.region, self.place.path_style, os.getpid())

    def _call(self, operation: str, **given: Any) -> Any:
        with self._told(operation):
            return getattr(self._client, operation)(Bucket=self.place.bucket, **given)

    @contextmanager
    def _told(self, operation: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _GONE:
                raise ObjectGone(operation) from None
            if code in _CHANGED:
                raise PreconditionFailed(operation) from None
            raise StoreUnavailable(self._why(operation, code)) from None
        except (NoCredentialsError, PartialCredentialsError):
            raise StoreUnavailable(
                f"There are no credentials for the bucket {self.place.bucket}. Set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or give this machine a role that may use it."
            ) from None
        except BotoCoreError as error:
            # Its first line names the address; credentials are never part of it.
            said = str(error).splitlines()[0][:300]
            raise StoreUnavailable(
                f"The bucket {self.place.bucket} cannot be reached: {said} Look at SLIPWAY_STORE_ENDPOINT "
                "and at the network."
            ) from None

    def _why(self, operation: str, code: str) -> str:
        bucket = self.place.bucket
        if code == "NoSuchBucket":
            return f"There is no bucket {bucket}. Make it, or name another one in SLIPWAY_STORE."
        if code in _WRONG_KEYS:
            return (
                f"The bucket {bucket} does not know our credentials ({code}). Look at AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the role of this machine."
            )
        if code in _FORBIDDEN:
            return (
                f"Our credentials may not do {operation} in the bucket {bucket}. docs/STORE.md lists the "
                "rights that they need."
            )
        if code in _BUSY:
            return f"The bucket {bucket} is overloaded and has refused {TRIES} times. Try again later."
        if code in {"PermanentRedirect", "301", "IllegalLocationConstraintException"}:
            return f"The bucket {bucket} is in another region. Set SLIPWAY_STORE_REGION."
        return f"The bucket {bucket} has refused {operation}: {code or 'no reason given'}."

    def _key(self, key: str) -> str:
        return self.place.prefix + key

    def get(self, key: str) -> tuple[bytes, str]:
        """A small object and its ETag."""
        return self._read(key)

    def read(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; fewer only where the object ends."""
        if not length:
            return b""
        return self._read(key, Range=f"bytes={start}-{start + length - 1}")[0]

    def _read(self, key: str, **given: str) -> tuple[bytes, str]:
        for is_last in (*([False] * (TRIES - 1)), True):
            with self._told("get_object"):
                answer = self._client.get_object(Bucket=self.place.bucket, Key=self._key(key), **given)
                try:
                    return answer["Body"].read(), answer["ETag"]
                except (ResponseStreamingError, ReadTimeoutError, IncompleteReadError):
                    # boto3 repeats requests, but not the reading of an answer that was cut.
                    if is_last:
                        raise
        raise AssertionError("unreachable")

    def head(self, key: str) -> ObjectHead:
        answer = self._call("head_object", Key=self._key(key))
        age = _age_seconds(_clock_of(answer), answer["LastModified"])
        return ObjectHead(answer["ContentLength"], answer["ETag"], age)

    def put(self, key: str, data: bytes, *, unchanged: str | None = None, only_new: bool = False) -> str:
        """The new ETag. `unchanged`: the ETag that it must have until now."""
        condition = {"IfMatch": unchanged} if unchanged else {"IfNoneMatch": "*"} if only_new else {}
        try:
            answer = self._call("put_object", Key=self._key(key), Body=data, **condition)
        except ObjectGone:
            # What is to replace an object does not find it.
            raise PreconditionFailed(key) from None
        return str(answer["ETag"])

    def delete(self, key: str, *, unchanged: str | None = None) -> None:
        """Delete a key; a key that is gone already is no error."""
        condition = {"IfMatch": unchanged} if unchanged else {}
        try:
            self._call("delete_object", Key=self._key(key), **condition)
        except ObjectGone:
            return

    def delete_all(self, keys: Collection[str]) -> None:
        listed = sorted(keys)
        for start in range(0, len(listed), 1000):
            objects = [{"Key": self._key(key)} for key in listed[start : start + 1000]]
            answer = self._call("delete_objects", Delete={"Objects": objects, "Quiet": True})
            if errors := answer.get("Errors"):
                raise StoreUnavailable(self._why("delete_objects", str(errors[0].get("Code", ""))))

    def listed(self, prefix: str, *, after: str = "") -> Iterator[ListedObject]:
        """Objects whose key begins with `prefix`, in order of their keys; those behind `after`."""
        given: dict[str, Any] = {"Prefix": self._key(prefix)}
        if after:
            given["StartAfter"] = self._key(after)
        while True:
            answer = self._call("list_objects_v2", **given)
            now = _clock_of(answer)
            for one in answer.get("Contents", ()):
                age = _age_seconds(now, one["LastModified"])
                yield ListedObject(one["Key"].removeprefix(self.place.prefix), one["Size"], age)
            if not answer.get("IsTruncated"):
                return
            given["ContinuationToken"] = answer["NextContinuationToken"]

    def has_any(self, prefix: str) -> bool:
        return bool(self._call("list_objects_v2", Prefix=self._key(prefix), MaxKeys=1).get("Contents"))

    def folders(self, prefix: str) -> list[str]:
        """Names directly below `prefix`, which ends with a slash."""
        given: dict[str, Any] = {"Prefix": self._key(prefix), "Delimiter": "/"}
        found: list[str] = []
        while True:
            answer = self._call("list_objects_v2", **given)
            found += (
                one["Prefix"].removeprefix(self._key(prefix)).rstrip("/")
                for one in answer.get("CommonPrefixes", ())
            )
            if not answer.get("IsTruncated"):
                return found
            given["ContinuationToken"] = answer["NextContinuationToken"]

    def begin_upload(self, key: str) -> str:
        answer = self._call("create_multipart_upload", Key=self._key(key))
        return str(answer["UploadId"])

    def upload_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        answer = self._call("upload_part", Key=self._key(key), UploadId=upload, PartNumber=number, Body=data)
        return str(answer["ETag"])

    def copy_part(self, key: str, upload: str, number: int, source: str) -> str:
        """The whole object `source` becomes a part, without its bytes coming here."""
        answer = self._call(
            "upload_part_copy",
            Key=self._key(key),
            UploadId=upload,
            PartNumber=number,
            CopySource={"Bucket": self.place.bucket, "Key": self._key(source)},
        )
        return str(answer["CopyPartResult"]["ETag"])

    def complete_upload(self, key: str, upload: str, etags: list[str]) -> None:
        """Make the object of the parts numbered from 1. Raises ObjectGone when somebody has aborted it."""
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        self._call(
            "complete_multipart_upload",
            Key=self._key(key),
            UploadId=upload,
            MultipartUpload={"Parts": parts},
        )

    def abort_uploads(self, prefix: str) -> None:
        """All that were begun under such keys."""
        given: dict[str, Any] = {"Prefix": self._key(prefix)}
        while True:
            answer = self._call("list_multipart_uploads", **given)
            for one in answer.get("Uploads", ()):
                with self._told("abort_multipart_upload"), _ignored(ObjectGone):
                    self._call("abort_multipart_upload", Key=one["Key"], UploadId=one["UploadId"])
            if not answer.get("IsTruncated"):
                return
            given["KeyMarker"] = answer["NextKeyMarker"]
            given["UploadIdMarker"] = answer["NextUploadIdMarker"]


@contextmanager
def _ignored(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind:
        return


def _clock_of(answer: Mapping[str, Any]) -> datetime:
    """Return the server's clock at the time of its response."""
    return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])


def _age_seconds(now: datetime, modified: datetime) -> float:
    return max(0.0, (now - modified).total_seconds())


def side_by_side(work: Callable[[T], U], things: Collection[T]) -> list[U]:
    """`work` of each, in order, over several connections; the first failure is raised."""
    if len(things) < 2:
        return [work(thing) for thing in things]
    with ThreadPoolExecutor(min(CONNECTIONS, len(things))) as pool:
        return list(pool.map(work, things))


@lru_cache(maxsize=8)
def _client(endpoint: str, region: str, path_style: bool, _pid: int) -> Any:
    """Return this process's client: a connection must not outlive a fork."""
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint or None,
        region_name=region or None,
        config=Config(
            retries={"mode": "standard", "total_max_attempts": TRIES},
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=2 * CONNECTIONS,
            tcp_keepalive=True,
            s3={"addressing_style": "path" if path_style else "auto"},
        ),
    )
