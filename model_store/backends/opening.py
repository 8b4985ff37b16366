"""Opens the store of an address."""

from pathlib import Path

from model_store.backends.base import BlobStore
from model_store.backends.local import LocalStore
from model_store.backends.location import BucketLocation

BUCKET = "s3://"
"""How addresses of stores in buckets begin."""


def opened_at(address: str) -> BlobStore:
    """The store that has this `BlobStore.address`."""
    if address.startswith(BUCKET):
        # Half a second and 40 MB that a store in a directory has no use for.
        from model_store.backends.bucket.store import BucketStore

        return BucketStore(BucketLocation.from_address(address))
    return LocalStore(Path(address))
