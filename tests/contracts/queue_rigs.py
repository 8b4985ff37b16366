"""Every kind of queue that a pool can scale by, and the way a test puts items there and takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import boto3
import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from capacity.queues.base import QueueAddress, QueueSource
from capacity.queues.jobs import JobsOfDeployment
from capacity.queues.kinds import KINDS
from capacity.states import QueueKind
from common.job_queue import ask_queue
from serving.jobs.job import JobPolicy
from tests.gateway.prometheus_server import Prometheus, serving
from tests.ports import PortBlock
from tests.valkey import ValkeyServer

if TYPE_CHECKING:
    from moto.server import ThreadedMotoServer

PASSWORD = "open sesame"
DEAD = "127.0.0.1:9"
"""Nothing listens there."""


class QueueRig(Protocol):
    source: QueueSource
    dead: QueueSource
    """One of a server that is gone."""

    def put(self, items: int) -> None: ...

    def take(self, items: int) -> None:
        """Take items and finish none of them."""


class JobsRig:
    """Jobs of a deployment; `dead` is set where the queue's Redis is stopped."""

    def __init__(self, valkey: ValkeyServer) -> None:
        self.valkey = valkey
        self._running = 0

    @property
    def source(self) -> QueueSource:
        return JobsOfDeployment("chat", "chat-v1", self._running)

    @property
    def dead(self) -> QueueSource:
        self.valkey.stop()
        return self.source

    def put(self, items: int) -> None:
        job: dict[str, Any] = {
            "service": "chat", "target": "chat-v1", "version": "story:v1", "path": "/work", "query": "",
            "headers": {}, "body": b"", "policy": JobPolicy(),
        }  # fmt: skip
        for _ in range(items):
            ask_queue(lambda queue, _: queue.submit(**job))

    def take(self, items: int) -> None:
        for number in range(items):
            ask_queue(lambda queue, _, name=f"w{number}": queue.take(("chat", "chat-v1"), worker=name))
        self._running += items


class RedisRig:
    """A Redis of somebody else with a password."""

    def __init__(self, client: redis.Redis, port: int, kind: QueueKind) -> None:
        self.client = client
        group = "workers" if kind == QueueKind.REDIS_STREAM else ""
        open_ = KINDS[kind].open
        self.source = open_(QueueAddress(f"redis://127.0.0.1:{port}/0", "pictures", group, PASSWORD))
        self.dead = open_(QueueAddress(f"redis://{DEAD}/0", "pictures", group, PASSWORD))


class ListRig(RedisRig):
    def put(self, items: int) -> None:
        self.client.lpush("pictures", *range(items))

    def take(self, items: int) -> None:
        self.client.rpop("pictures", items)


class StreamRig(RedisRig):
    def put(self, items: int) -> None:
        if not self.client.exists("pictures"):
            self.client.xgroup_create("pictures", "workers", id="0", mkstream=True)
        for number in range(items):
            self.client.xadd("pictures", {"number": number})

    def take(self, items: int) -> None:
        self.client.xreadgroup("workers", "w1", {"pictures": ">"}, count=items)


class PrometheusRig:
    """A series that an exporter of the queue has."""

    def __init__(self, prometheus: Prometheus, url: str) -> None:
        self._prometheus, self._items = prometheus, 0
        self.source = KINDS[QueueKind.PROMETHEUS].open(QueueAddress(url, 'lag{group="workers"}'))
        self.dead = KINDS[QueueKind.PROMETHEUS].open(QueueAddress(f"http://{DEAD}", "lag{}"))
        self.put(0)

    def put(self, items: int) -> None:
        self._items += items
        self._prometheus.now += 15
        self._prometheus.scrape(f'lag{{group="workers"}} {self._items}\n', job="exporter")

    def take(self, items: int) -> None:
        self.put(-items)


class KafkaRig:
    """A consumer group on a topic of the broker that librdkafka has inside of it."""

    def __init__(self) -> None:
        self._broker = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
        (broker,) = self._broker.list_topics(timeout=5).brokers.values()
        self.server = f"{broker.host}:{broker.port}"
        options = {"bootstrap.servers": self.server, "group.id": "workers", "enable.auto.commit": False}
        self.group = Consumer(options)
        self._taken = 0
        self.put(2)
        self.take(2)
        self.source = self.open()
        self.dead = self.open(server=DEAD)

    def open(
        self, *, server: str = "", topic: str = "pictures", group: str = "workers", secret: str = ""
    ) -> QueueSource:
        place = QueueAddress(f"kafka://{server or self.server}", topic, group, secret)
        return KINDS[QueueKind.KAFKA].open(place)

    def put(self, items: int) -> None:
        for number in range(items):
            self._broker.produce("pictures", str(number), partition=0)
        assert self._broker.flush(5) == 0

    def take(self, items: int) -> None:
        """Kafka knows of an item in hand only once it is done."""
        self._taken += items
        self.group.commit(offsets=[TopicPartition("pictures", 0, self._taken)], asynchronous=False)


class SqsRig:
    def __init__(self, server: ThreadedMotoServer) -> None:
        host, port = server.get_host_and_port()
        place = {"endpoint_url": f"http://{host}:{port}", "region_name": "eu-west-1"}
        keys = {"aws_access_key_id": "AKID", "aws_secret_access_key": "a key"}
        self._client = boto3.client("sqs", **place, **keys)  # type: ignore[call-overload]
        self._url = self._client.create_queue(QueueName=f"pictures-{uuid4()}")["QueueUrl"]
        open_ = KINDS[QueueKind.SQS].open
        self.source = open_(QueueAddress(self._url, "eu-west-1", secret="AKID:a key"))
        self.dead = open_(QueueAddress(f"http://{DEAD}/1/pictures", "eu-west-1", secret="AKID:a key"))

    def put(self, items: int) -> None:
        for number in range(items):
            self._client.send_message(QueueUrl=self._url, MessageBody=str(number))

    def take(self, items: int) -> None:
        self._client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=items)


@contextmanager
def redis_rig(kind: QueueKind) -> Iterator[QueueRig]:
    port = PortBlock()[0]
    server = ValkeyServer(port=port, password=PASSWORD)
    server.start()
    try:
        with redis.Redis.from_url(server.url) as client:
            yield (ListRig if kind == QueueKind.REDIS_LIST else StreamRig)(client, port, kind)
    finally:
        server.remove()


@contextmanager
def prometheus_rig() -> Iterator[QueueRig]:
    prometheus = Prometheus()
    with serving(prometheus) as url:
        yield PrometheusRig(prometheus, url)


@contextmanager
def kafka_rig() -> Iterator[KafkaRig]:
    rig = KafkaRig()
    try:
        yield rig
    finally:
        rig.group.close()


@contextmanager
def sqs_rig() -> Iterator[QueueRig]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield SqsRig(server)
    finally:
        server.stop()
