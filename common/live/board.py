from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

Shard = int
"""Whose part of a topic a value belongs to: a team's id, or PUBLIC."""
PUBLIC: Shard = 0
Audience = frozenset[Shard] | None
"""The shards that a follower may see; EVERYONE's has no bounds."""
EVERYONE: Audience = None

HISTORY = 60
"""Changes that are remembered: a socket that is further behind gets everything anew."""


NOTHING = -1


@dataclass(frozen=True, slots=True)
class SocketPosition:
    """Position of one socket. `sent` lags behind `seq` when the latest changes were none of its business."""

    seq: int
    """NOTHING: it holds no values, and gets them all."""
    sent: int
    """The number of the last frame with values."""
    looks: int

    def without_values(self) -> "SocketPosition":
        """Return it without values, so that they come anew; whether it must look again is another matter."""
        return replace(self, seq=NOTHING)


@dataclass(frozen=True, slots=True)
class _BoardChange:
    seq: int
    paths: Mapping[str, frozenset[Shard]]
    """What changed, came or went, with every shard that it has been in."""


class LiveBoard:
    """The state that one topic shows now, numbered, and its latest changes. Knows no socket and no clock.

    Frames are encoded once per change and audience: all sockets that are equally far share the text.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.seq = 0
        self.looks = 0
        self._values: dict[str, tuple[Shard, Any]] = {}
        self._changes: deque[_BoardChange] = deque(maxlen=HISTORY)
        self._frames: dict[tuple[int, int, Audience], str] = {}

    def show(self, parts: Mapping[Shard, Mapping[str, Any]]) -> bool:
        """Show exactly these values, given by shard and path; True if that changes anything."""
        values = {path: (shard, value) for shard, part in parts.items() for path, value in part.items()}
        before = self._values
        paths: dict[str, frozenset[Shard]] = {}
        for path, entry in values.items():
            old = before.get(path)
            if old != entry:
                paths[path] = frozenset({entry[0]} if old is None else {entry[0], old[0]})
        for path in before.keys() - values.keys():
            paths[path] = frozenset({before[path][0]})
        if not paths:
            return False
        self.seq += 1
        self._values = values
        self._changes.append(_BoardChange(self.seq, paths))
        self._frames.clear()
        return True

    def look(self) -> None:
        """The rows behind the topic changed: tell everybody to look again."""
        self.looks += 1

    def newcomer(self, *, is_late: bool = False) -> SocketPosition:
        """Return the position of a new socket; late: the rows changed since its page was made."""
        return SocketPosition(NOTHING, NOTHING, self.looks - is_late)

    def frames(self, audience: Audience, seen: SocketPosition) -> tuple[list[str], SocketPosition]:
        """Return the frames that a socket at this position lacks, as JSON texts, and its new position."""
        frames = []
        sent = seen.sent
        if seen.seq == NOTHING or (seen.seq != self.seq and seen.seq < self._changes[0].seq - 1):
            frames.append(self._snapshot(audience))
            sent = self.seq
        elif seen.seq != self.seq and (delta := self._delta(audience, seen)):
            frames.append(delta)
            sent = self.seq
        if seen.looks != self.looks:
            frames.append(_encode({"type": "look", "topic": self.topic}))
        return frames, SocketPosition(self.seq, sent, self.looks)

    def _snapshot(self, audience: Audience) -> str:
        key = (-1, -1, audience)
        if key not in self._frames:
            values = {
                path: value
                for path, (shard, value) in self._values.items()
                if audience is None or shard in audience
            }
            frame = {"type": "snapshot", "topic": self.topic, "seq": self.seq, "values": values}
            self._frames[key] = _encode(frame)
        return self._frames[key]

    def _delta(self, audience: Audience, seen: SocketPosition) -> str:
        """Return what changed for this audience; empty: nothing did."""
        key = (seen.seq, seen.sent, audience)
        if key not in self._frames:
            self._frames[key] = self._encode_delta(audience, seen)
        return self._frames[key]

    def _encode_delta(self, audience: Audience, seen: SocketPosition) -> str:
        values: dict[str, Any] = {}
        gone: set[str] = set()
        for change in self._changes:
            if change.seq <= seen.seq:
                continue
            for path, shards in change.paths.items():
                entry = self._values.get(path)
                if entry is not None and (audience is None or entry[0] in audience):
                    values[path] = entry[1]
                elif audience is None or shards & audience:
                    gone.add(path)
        if not values and not gone:
            return ""
        frame: dict[str, Any] = {"type": "delta", "topic": self.topic, "seq": self.seq, "from": seen.sent}
        frame["values"] = values
        if gone:
            frame["gone"] = sorted(gone)
        return _encode(frame)


def _encode(frame: Mapping[str, Any]) -> str:
    return orjson.dumps(frame).decode()
