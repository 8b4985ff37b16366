"""Places of items and results: paths of this machine, and prefixes of S3 buckets that are used like paths."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from serving.graphs.errors import GraphError

if TYPE_CHECKING:
    from cloudpathlib import S3Path

Place: TypeAlias = "Path | S3Path"
BUCKETS = "s3://"


def place_of(address: str) -> Place:
    """Return the place of a path, or of `s3://bucket/prefix`, whose credentials and endpoint boto3 finds.
    Raises GraphError."""
    if "://" not in address:
        return Path(address)
    if not address.startswith(BUCKETS) or not address.removeprefix(BUCKETS).strip("/"):
        raise GraphError(f"{address} is neither a path nor like s3://bucket/prefix")
    try:
        from cloudpathlib import S3Client, S3Path
        from cloudpathlib.enums import FileCacheMode
    except ImportError:
        raise GraphError(f"{address} needs cloudpathlib: install slipway[s3]") from None
    # Nothing stays on this machine's disk: a run may read more than it has.
    with reached(address):
        return S3Path(address, client=S3Client(file_cache_mode=FileCacheMode.close_file))


@contextmanager
def reached(place: "Place | str") -> Iterator[None]:
    """Raises OSError where a bucket refuses or cannot be reached."""
    if isinstance(place, Path):
        yield
        return
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError
    from cloudpathlib.exceptions import CloudPathException

    try:
        yield
    except (Boto3Error, BotoCoreError, ClientError, CloudPathException) as error:
        raise OSError(errno.EIO, str(error), str(place)) from error
