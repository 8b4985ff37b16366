from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from common.actor import Actor
from common.live.board import PUBLIC, Audience, Shard


class Topic(ABC):
    """A kind of thing that pages follow, such as `fleet` or `release`; with a key, `release:12`.

    An app defines it in `consumers.py` and names it in its manifest.
    """

    kind: ClassVar[str]
    refresh_seconds: ClassVar[float | None] = None
    """How often `read` is called while somebody follows; None: only when the topic is touched."""
    min_gap_seconds: ClassVar[float] = 0.2
    """Pause between two reads: many touches in a row are one."""

    @abstractmethod
    def audience(self, actor: Actor, key: str) -> Audience:
        """The shards that the actor may see. Raises NotAllowed or Missing (`common.errors`); may query.

        Asked at the subscription and every 10 s after.
        """

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        """All values that the topic shows, by shard and path; JSON-ready scalars. May use the loop's hub."""
        return {PUBLIC: {}}


_topics: dict[str, Topic] = {}


def register(topic: Topic) -> None:
    _topics[topic.kind] = topic


def topic_of(name: str) -> tuple[Topic, str] | None:
    """The topic and the key behind `kind` or `kind:key`; None when there is no such topic."""
    kind, _, key = name.partition(":")
    topic = _topics.get(kind)
    return (topic, key) if topic else None


def name_of(kind: str, key: str) -> str:
    return f"{kind}:{key}" if key else kind
