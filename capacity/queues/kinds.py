"""The kinds of queues that are somebody else's; that of Slipway's own jobs has no address."""

from capacity.queues.base import QueueKindSpec
from capacity.queues.kafka import KafkaQueue
from capacity.queues.prometheus import PrometheusQueue
from capacity.queues.redis_queues import redis_list, redis_stream
from capacity.queues.sqs import SqsQueue
from capacity.states import QueueKind

KINDS = {
    QueueKind.REDIS_LIST: QueueKindSpec(redis_list, ("redis", "rediss")),
    QueueKind.REDIS_STREAM: QueueKindSpec(
        redis_stream, ("redis", "rediss"), needs_group=True, tells_arrivals=True
    ),
    QueueKind.PROMETHEUS: QueueKindSpec(PrometheusQueue, ("http", "https")),
    QueueKind.SQS: QueueKindSpec(SqsQueue, ("http", "https")),
    QueueKind.KAFKA: QueueKindSpec(KafkaQueue, ("kafka", "kafka+ssl"), needs_group=True, tells_arrivals=True),
}
