"""The location of a bucket store, as a value and as an address."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit


@dataclass(frozen=True, slots=True)
class BucketLocation:
    """The bucket, and where this node keeps what it has read of it.

    `prefix`: empty, or ends with a slash. `endpoint`, `region`: empty for boto3's own choice.
    """

    bucket: str
    cache: Path
    cache_limit_bytes: int
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    path_style: bool = False

    @property
    def url(self) -> str:
        """The address for people."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def address(self) -> str:
        rest = {
            "cache": str(self.cache),
            "cache_limit_bytes": self.cache_limit_bytes,
            "endpoint": self.endpoint,
            "region": self.region,
            "path_style": int(self.path_style),
        }
        return f"s3://{self.bucket}/{quote(self.prefix)}?{urlencode(rest)}"

    @classmethod
    def from_address(cls, address: str) -> Self:
        parts = urlsplit(address)
        rest = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return cls(
            bucket=parts.netloc,
            prefix=unquote(parts.path.lstrip("/")),
            cache=Path(rest["cache"]),
            cache_limit_bytes=int(rest["cache_limit_bytes"]),
            endpoint=rest["endpoint"],
            region=rest["region"],
            path_style=rest["path_style"] == "1",
        )
