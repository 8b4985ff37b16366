"""Who keeps blobs in the store: told by the apps above, which the store does not know."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet, Sum

_AT_ONCE = 500


def _none(_: Collection[str]) -> set[str]:
    return set()


@dataclass(frozen=True, slots=True)
class BlobOwner:
    """Something that is made of blobs, such as a version."""

    name: str
    url: str
    digest: str
    """Of its list of files: the name of its directory."""


def _nothing(_: Collection[str]) -> Mapping[str, Sequence[BlobOwner]]:
    return {}


@dataclass(frozen=True, eq=False)
class Reserved:
    """Rows each of which takes room in a team's quota for what is to come."""

    rows: QuerySet[Any]
    size: str
    """Their column of how many bytes."""
    team: str
    """The way from them to the team."""


@dataclass(frozen=True, eq=False)
class References:
    """The needs of one kind of rows. Each query set is read anew whenever it is asked for."""

    rows: QuerySet[Any] | None = None
    """Each keeps the blob that its `sha256` names."""
    whole: QuerySet[Any] | None = None
    """Of these the blob must be there, with their `size`."""
    team: str = ""
    """The way from `rows` to the team that holds their `size` bytes; empty: nobody's quota counts them."""
    reserved: "Reserved | None" = None
    owners: Callable[[Collection[str]], Mapping[str, Sequence[BlobOwner]]] = _nothing
    """What `whole` files with these contents belong to, by sha256, oldest first."""
    laid_out: Callable[[Collection[str]], set[str]] = _none
    """Those of the digests whose directories may stay on a node."""
    keys: Callable[[Collection[str]], set[str]] = _none
    """Those of the staging areas' keys that a row knows as its own."""
    tidy: Callable[[], None] = lambda: None
    """Remove what lies beside the store and belongs to no row any more."""


_registered: list[References] = []


def register_references(references: References) -> None:
    """Let the store keep what these rows need. Registering twice changes nothing."""
    if references not in _registered:
        _registered.append(references)


def registered() -> Sequence[References]:
    return tuple(_registered)


def referenced(blobs: Collection[str]) -> set[str]:
    """Return the sha256s that any row needs."""
    return set[str]().union(*(named_in(rows, blobs) for rows in _all("rows")))


def once(rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """Each content once."""
    return rows.values("sha256", "size").distinct()


@dataclass(frozen=True, slots=True)
class Usage:
    """Blobs that are needed, each once, and the bytes of all that need them, each counted in full."""

    blobs: int
    bytes: int
    all_bytes: int


def usage() -> Usage:
    """Return the bytes in use of rows with a known owner, and the bytes reserved."""
    blobs = deduplicated = full = 0
    for one in _registered:
        if one.rows is not None and one.team:
            rows = one.rows.order_by()
            counted = once(rows.all()).aggregate(blobs=Count("*"), bytes=Sum("size"))
            blobs, deduplicated = blobs + counted["blobs"], deduplicated + (counted["bytes"] or 0)
            full += rows.aggregate(bytes=Sum("size"))["bytes"] or 0
    return Usage(blobs, deduplicated, full)


def whole() -> dict[str, int]:
    """Bytes by sha256 of all the blobs that must be there."""
    return {
        sha256: size for rows in _all("whole") for sha256, size in once(rows).values_list("sha256", "size")
    }


def size_of(sha256: str) -> int | None:
    """Bytes that a blob should have; None: nothing tells."""
    sizes = (rows.filter(sha256=sha256).values_list("size", flat=True).first() for rows in _all("whole"))
    return next((size for size in sizes if size is not None), None)


def owners(blobs: Collection[str]) -> dict[str, tuple[BlobOwner, ...]]:
    """Return the owners of these blobs, by sha256: one query per kind for any number of them."""
    found: dict[str, tuple[BlobOwner, ...]] = {}
    for one in _registered:
        for sha256, some in one.owners(blobs).items():
            found[sha256] = (*found.get(sha256, ()), *some)
    return found


def owners_of(sha256: str) -> tuple[BlobOwner, ...]:
    return owners([sha256]).get(sha256, ())


def laid_out(digests: Collection[str]) -> set[str]:
    """Return the digests whose directories may stay on a node."""
    return set[str]().union(*(one.laid_out(digests) for one in _registered))


def known_keys(keys: Collection[str]) -> set[str]:
    """Return the keys of staging areas that a row owns."""
    return set[str]().union(*(one.keys(keys) for one in _registered))


def tidy() -> None:
    for one in _registered:
        one.tidy()


def named_in(rows: QuerySet[Any], blobs: Collection[str]) -> set[str]:
    """Return the sha256s that the rows name; asked in batches, for databases limit a query."""
    listed, found = list(blobs), set[str]()
    for start in range(0, len(listed), _AT_ONCE):
        some = rows.filter(sha256__in=listed[start : start + _AT_ONCE])
        found.update(some.values_list("sha256", flat=True).distinct())
    return found


def _all(name: str) -> Iterator[QuerySet[Any]]:
    for one in _registered:
        rows: QuerySet[Any] | None = getattr(one, name)
        if rows is not None:
            yield rows.order_by()
