"""Progress of a deployment's files, by place: documents of its row, for pages and REST. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clusters.backends.base import FilesFetch

Document = dict[str, Any]
"""`{place, come_bytes, size_bytes, bytes_per_second, left_seconds, problem}`; rate and rest null: not known.
"""


def documents(
    fetches: Iterable[FilesFetch], *, before: Sequence[Mapping[str, Any]] = (), seconds: float = 0.0
) -> list[Document]:
    """Return one document a place, however many wait there, by its name. `before`: those of `seconds` ago,
    which give the rate where a place does not report it.
    """
    furthest: dict[str, FilesFetch] = {}
    for one in fetches:
        held = furthest.get(one.place)
        if held is None or held.come_bytes < one.come_bytes:
            furthest[one.place] = one
    earlier = {one["place"]: one for one in before}
    return [_document(furthest[place], earlier.get(place), seconds) for place in sorted(furthest)]


def _document(fetch: FilesFetch, earlier: Mapping[str, Any] | None, seconds: float) -> Document:
    rate = fetch.bytes_per_second
    if rate is None and earlier is not None and seconds > 0:
        rate = max(0, int((fetch.come_bytes - earlier["come_bytes"]) / seconds))
    return {
        "place": fetch.place,
        "come_bytes": fetch.come_bytes,
        "size_bytes": fetch.size_bytes,
        "bytes_per_second": rate,
        "problem": fetch.problem,
        "left_seconds": -(-(fetch.size_bytes - fetch.come_bytes) // rate) if rate else None,
    }
