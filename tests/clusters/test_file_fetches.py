"""Progress of a deployment's files, by machine, with a rate."""

from clusters.backends.base import FilesFetch
from clusters.file_fetches import documents


def fetch(place: str, come: int, rate: int | None = None) -> FilesFetch:
    return FilesFetch(place=place, come_bytes=come, size_bytes=1_000, bytes_per_second=rate)


def test_pods_of_one_machine_share_what_comes_to_it() -> None:
    found = documents([fetch("b", 10, 5), fetch("a", 200, 100), fetch("a", 150, 90)])
    assert [(one["place"], one["come_bytes"]) for one in found] == [("a", 200), ("b", 10)]
    assert (found[0]["bytes_per_second"], found[0]["left_seconds"]) == (100, 8)


def test_a_place_that_tells_no_rate_has_that_since_the_last_look() -> None:
    before = documents([fetch("a", 200)])
    assert before[0]["bytes_per_second"] is None
    (found,) = documents([fetch("a", 450)], before=before, seconds=2.5)
    assert (found["bytes_per_second"], found["left_seconds"]) == (100, 6)


def test_what_stands_still_has_no_end() -> None:
    (found,) = documents([fetch("a", 200, 0)])
    assert (found["bytes_per_second"], found["left_seconds"]) == (0, None)
