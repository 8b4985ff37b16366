"""Reports that agents, relays and workers send every second, and the replies."""

from typing import Any

from rest_framework import serializers

from clusters.api import examples
from common.api.examples import example
from serving.protocol import MAX_DEVICES_PER_REPORT, MAX_WORKERS_PER_REPORT


@example(examples.NODE_REPORT)
class NodeReportSerializer(serializers.Serializer[Any]):
    node = serializers.CharField(help_text="The machine's `uid`; the token must be of this machine.")
    session = serializers.CharField(help_text="Another one after each start of the agent.")
    sequence = serializers.IntegerField(
        min_value=1, help_text="Rises with each report of a session; one that is not newer is refused."
    )
    workers = serializers.ListField(
        child=serializers.DictField(),
        max_length=MAX_WORKERS_PER_REPORT,
        help_text="Heartbeats of all workers heard of lately; fields as in `serving/protocol.py`.",
    )
    devices = serializers.ListField(
        child=serializers.DictField(),
        max_length=MAX_DEVICES_PER_REPORT,
        help_text="All devices that can be read: `uuid` and `readings`, numbers by name.",
    )


class RefusalSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(help_text="Worker or device, as it named itself.")
    reason = serializers.CharField()


@example(examples.HEARTBEATS)
class HeartbeatsSerializer(serializers.Serializer[Any]):
    workers = serializers.ListField(
        child=serializers.DictField(),
        max_length=MAX_WORKERS_PER_REPORT,
        help_text="Heartbeats; fields as in `serving/protocol.py`.",
    )


class HeartbeatRefusalSerializer(serializers.Serializer[Any]):
    worker = serializers.CharField(help_text="As it named itself.")
    reason = serializers.CharField()


@example(examples.HEARTBEAT_RECEIPT)
class HeartbeatReceiptSerializer(serializers.Serializer[Any]):
    accepted = serializers.IntegerField()
    refused = HeartbeatRefusalSerializer(many=True)


@example(examples.RECEIPT)
class ReceiptSerializer(serializers.Serializer[Any]):
    accepted = serializers.IntegerField()
    refused = RefusalSerializer(many=True)


class MachineReportSerializer(serializers.Serializer[Any]):
    machine = serializers.CharField(help_text="Name of the machine in the cluster.")
    workers = serializers.ListField(
        child=serializers.DictField(),
        max_length=MAX_WORKERS_PER_REPORT,
        help_text="Heartbeats; fields as in `serving/protocol.py`.",
    )


@example(examples.RELAY_REPORT)
class RelayReportSerializer(serializers.Serializer[Any]):
    session = serializers.CharField(help_text="Another one after each start of the relay.")
    sequence = serializers.IntegerField(
        min_value=1, help_text="Rises with each report of a session; one that is not newer is refused."
    )
    known = serializers.CharField(
        required=False, help_text="The answer's `revision` that the relay has; empty: none."
    )
    machines = MachineReportSerializer(many=True)


@example(examples.RELAY_ANSWER)
class RelayAnswerSerializer(HeartbeatReceiptSerializer):
    revision = serializers.CharField(help_text="Of `reporters` and `targets`.")
    reporters = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="Deployments by the SHA-256 of tokens that report them; left out where it is known.",
    )
    targets = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="Servers to read; fields as in `serving/relay_protocol.py`. Left out where it is known.",
    )
