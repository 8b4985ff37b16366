"""The lag of a consumer group on a topic of Kafka: ends of its partitions less what the group has committed.

Offsets are counted, not records: those of transactions count, and so do those that compaction has removed.
https://docs.confluent.io/platform/current/clients/confluent-kafka-python/html/index.html
"""

from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from capacity.queues.base import WITHIN_SECONDS, QueueAddress, QueueSample, QueueSilent
from common.errors import SlipwayError
from common.outbound import own_machine
from common.outbound.names import resolve

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

PORT = 9092
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class KafkaQueue:
    """A consumer group on a topic. secret: `MECHANISM:USER:PASSWORD`; empty: nobody signs in.

    Brokers are connected to by the names that they give for themselves. Names are judged before, and not
    pinned: the library connects by itself.
    """

    def __init__(self, address: QueueAddress) -> None:
        self._address = address

    def sample(self) -> QueueSample:
        if find_spec("confluent_kafka") is None:
            raise QueueSilent("confluent-kafka is not installed on the server: pip install 'slipway[kafka]'.")
        from confluent_kafka import Consumer, KafkaException

        deadline = monotonic() + WITHIN_SECONDS
        parts = urlsplit(self._address.url)
        host, port = parts.hostname or "", parts.port or PORT
        try:
            _judge(host, port)
            consumer = Consumer(self._options(f"{host}:{port}"))
            try:
                return self._look(consumer, deadline)
            finally:
                consumer.close()
        except KafkaException as error:
            raise QueueSilent(f"{host}:{port} does not tell it: {error.args[0].str()}") from None
        except QueueSilent:
            raise
        except SlipwayError as error:
            raise QueueSilent(str(error)) from None

    def _options(self, server: str) -> dict[str, Any]:
        is_tls = urlsplit(self._address.url).scheme == "kafka+ssl"
        options: dict[str, Any] = {
            "bootstrap.servers": server,
            "group.id": self._address.consumer_group,
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            "socket.timeout.ms": int(WITHIN_SECONDS * 1000),
            "security.protocol": "SSL" if is_tls else "PLAINTEXT",
            # Whoever looks needs no word of each broker that is gone: the answer says it.
            "log_level": 0,
        }
        if not self._address.secret:
            return options
        mechanism, _, who = self._address.secret.partition(":")
        user, _, password = who.partition(":")
        if mechanism not in MECHANISMS or not user or not password:
            raise QueueSilent(
                f"The secret of Kafka is MECHANISM:USER:PASSWORD; mechanisms are {', '.join(MECHANISMS)}."
            )
        return {
            **options,
            "security.protocol": "SASL_SSL" if is_tls else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def _look(self, consumer: "Consumer", deadline: float) -> QueueSample:
        topic, group = self._address.subject, self._address.consumer_group
        known = consumer.list_topics(topic, timeout=_left(deadline))
        for broker in known.brokers.values():
            _judge(broker.host, broker.port)
        found = known.topics[topic]
        if found.error is not None:
            raise QueueSilent(f"Kafka says of the topic {topic}: {found.error.str()}.")
        committed = consumer.committed(_places(topic, list(found.partitions)), timeout=_left(deadline))
        if failed := next((one.error for one in committed if one.error is not None), None):
            raise QueueSilent(f"Kafka says of the group {group}: {failed.str()}.")
        if all(one.offset < 0 for one in committed):
            raise QueueSilent(
                f"The group {group} has committed nothing of {topic}: check its name, or start it once."
            )
        lag = ended = 0
        for one in committed:
            begin, end = consumer.get_watermark_offsets(one, timeout=_left(deadline))
            # A partition that the group has not come to yet, or whose records were deleted behind it.
            lag += max(0, end - max(one.offset, begin))
            ended += end
        return QueueSample(float(lag), arrived=float(ended))


def _places(topic: str, partitions: list[int]) -> "list[TopicPartition]":
    from confluent_kafka import TopicPartition

    return [TopicPartition(topic, number) for number in partitions]


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise QueueSilent(f"Kafka did not answer within {WITHIN_SECONDS:g} s.")
    return left


def _judge(host: str, port: int) -> None:
    own_machine.judge(host, port, resolve(host, port))
