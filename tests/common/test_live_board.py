"""Whatever frames a socket takes or skips, what it holds in the end is what the board shows it."""

from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.live.board import EVERYONE, HISTORY, PUBLIC, Audience, LiveBoard, SocketPosition

TEAM, OTHER = 1, 2


class Page:
    """A browser as docs/LIVE.md describes it; `gaps` counts deltas that did not build upon what it held."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.seen: SocketPosition | None = None
        """None: it has not come yet."""
        self.values: dict[str, Any] = {}
        self.seq = -1
        self.kinds: list[str] = []
        self.gaps = 0

    def take(self, board: LiveBoard) -> None:
        frames, self.seen = board.frames(self.audience, self.seen or board.newcomer())
        for text in frames:
            frame = orjson.loads(text)
            self.kinds.append(frame["type"])
            if frame["type"] == "snapshot":
                self.values, self.seq = dict(frame["values"]), frame["seq"]
            elif frame["type"] == "delta":
                self.gaps += frame["from"] != self.seq
                self.values |= frame["values"]
                for path in frame.get("gone", ()):
                    self.values.pop(path, None)
                self.seq = frame["seq"]


def visible(parts: dict[int, dict[str, int]], audience: Audience) -> dict[str, int]:
    return {
        path: value
        for shard, part in parts.items()
        if audience is None or shard in audience
        for path, value in part.items()
    }


paths = st.sampled_from("abcdef")
# A path is in one shard at a time, but may move from one to another.
documents = st.dictionaries(paths, st.tuples(st.sampled_from([PUBLIC, TEAM, OTHER]), st.integers(0, 3)))


def parts_of(document: dict[str, tuple[int, int]]) -> dict[int, dict[str, int]]:
    parts: dict[int, dict[str, int]] = {}
    for path, (shard, value) in document.items():
        parts.setdefault(shard, {})[path] = value
    return parts


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.tuples(documents, st.booleans()), max_size=30),
    st.sampled_from([EVERYONE, frozenset({PUBLIC}), frozenset({PUBLIC, TEAM})]),
)
def test_a_page_that_skips_any_frames_ends_up_with_what_it_may_see(history, audience) -> None:
    board, page = LiveBoard("fleet"), Page(audience)
    page.take(board)
    parts: dict[int, dict[str, int]] = {}
    for document, takes in history:
        parts = parts_of(document)
        board.show(parts)
        if takes:
            page.take(board)
            assert page.values == visible(parts, audience)
    page.take(board)
    assert page.values == visible(parts, audience)
    assert page.gaps == 0


def test_nothing_is_sent_when_nothing_changed() -> None:
    board, page = LiveBoard("fleet"), Page(EVERYONE)
    board.show({PUBLIC: {"a": 1}})
    page.take(board)
    assert not board.show({PUBLIC: {"a": 1}})
    page.take(board)
    assert page.kinds == ["snapshot"]


def test_changes_of_another_team_are_neither_sent_nor_hinted_at() -> None:
    board, page = LiveBoard("fleet"), Page(frozenset({PUBLIC, TEAM}))
    page.take(board)
    board.show({OTHER: {"worker.secret-1.busy": 0.5}})
    board.show({})
    page.take(board)
    assert page.kinds == ["snapshot"]


def test_a_page_too_far_behind_gets_everything_anew() -> None:
    board, page = LiveBoard("fleet"), Page(EVERYONE)
    page.take(board)
    for number in range(HISTORY + 2):
        board.show({PUBLIC: {"a": number}})
    page.take(board)
    assert page.kinds == ["snapshot", "snapshot"]
    assert page.values == {"a": HISTORY + 1}


def test_many_looks_between_two_frames_are_one() -> None:
    board, page = LiveBoard("release:12"), Page(EVERYONE)
    page.take(board)
    board.look()
    board.look()
    page.take(board)
    page.take(board)
    assert page.kinds == ["snapshot", "look"]


def test_a_look_is_not_lost_on_a_page_that_gets_everything_anew() -> None:
    board, page = LiveBoard("release:12"), Page(EVERYONE)
    page.take(board)
    board.look()
    page.seen = page.seen.without_values()
    page.take(board)
    for number in range(HISTORY + 2):
        board.show({PUBLIC: {"a": number}})
    board.look()
    page.take(board)
    assert page.kinds == ["snapshot", "snapshot", "look", "snapshot", "look"]


def test_one_that_comes_late_looks_again_at_once() -> None:
    board, page = LiveBoard("release:12"), Page(EVERYONE)
    board.look()
    page.seen = board.newcomer(is_late=True)
    page.take(board)
    page.take(board)
    assert page.kinds == ["snapshot", "look"]


def test_sockets_that_are_equally_far_share_one_text() -> None:
    board = LiveBoard("fleet")
    pages = [Page(EVERYONE) for _ in range(3)]
    for page in pages:
        page.take(board)
    board.show({PUBLIC: {"a": 1}})
    texts = {id(board.frames(EVERYONE, page.seen)[0][0]) for page in pages}
    assert len(texts) == 1
