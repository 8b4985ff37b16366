from typing import Any

from rest_framework import serializers

from accounts.services.tokens import LONGEST
from clusters.api import examples
from clusters.backends.placement import TaintEffect
from clusters.models import Cluster, Deployment, Gpu, Node, Worker
from clusters.services.node_agents import TOKEN_LIFE
from clusters.states import (
    Alert,
    CheckResult,
    ClusterKind,
    ClusterState,
    GpuSharing,
    NodeOperation,
    WorkerState,
)
from common.api.examples import example
from common.audit import MAX_REASON

MOST_SECRET = 262_144
"""Characters: a kubeconfig with its certificates."""


class ClusterCheckSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="What was looked at: `reachable`, `right: read pods`, `GPUs`.")
    result = serializers.ChoiceField(
        choices=CheckResult.choices,
        help_text="`warning`: something does not work without it; `failed`: nothing can be released there.",
    )
    detail = serializers.CharField(help_text="Results, and what to do about it.")


@example(examples.CLUSTER)
class ClusterSerializer(serializers.ModelSerializer[Cluster]):
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="null: shared by all teams."
    )
    host = serializers.CharField(
        help_text="Host that runs its workers and its gateway itself; empty: it is reached over a network."
    )
    state = serializers.ChoiceField(choices=ClusterState.choices, help_text="From its checks and surveys.")
    region = serializers.CharField(help_text="Region whose mirror images are pulled from; empty: none.")
    provider = serializers.CharField(help_text="Whose machines they are; empty: not said.")
    labels = serializers.DictField(child=serializers.CharField())
    settings = serializers.DictField(help_text="Connection settings; each kind has its own.")
    secrets = serializers.ListField(
        source="sealed_secrets", child=serializers.CharField(), help_text="Names of its stored secrets."
    )
    problem = serializers.CharField(help_text="Reason why it is unavailable; empty: it is available.")

    checks = ClusterCheckSerializer(many=True, help_text="In the order in which they were made.")
    checked_at = serializers.DateTimeField(allow_null=True, help_text="null: not checked yet.")

    class Meta:
        model = Cluster
        fields = (
            "name",
            "kind",
            "state",
            "team",
            "host",
            "region",
            "provider",
            "labels",
            "settings",
            "secrets",
            "problem",
            "surveyed_at",
            "checks",
            "checked_at",
            "created_at",
        )


@example(examples.NEW_CLUSTER)
class NewClusterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63, help_text="Lower-case letters, digits and hyphens.")
    kind = serializers.ChoiceField(choices=ClusterKind.choices, default=ClusterKind.KUBERNETES)
    team = serializers.CharField(
        max_length=100, required=False, help_text="Team that owns it; left out: shared by all teams."
    )
    region = serializers.CharField(
        max_length=63, allow_blank=True, required=False, help_text="Region, as in the mirrors of images."
    )
    provider = serializers.CharField(max_length=63, allow_blank=True, required=False)
    labels = serializers.DictField(child=serializers.CharField(allow_blank=True), required=False)
    settings = serializers.DictField(
        required=False,
        help_text="Of a Kubernetes cluster: `namespace`, `context` of the kubeconfig and others.",
    )
    secrets = serializers.DictField(
        child=serializers.CharField(max_length=MOST_SECRET, trim_whitespace=False),
        required=False,
        help_text="Secrets by name: `kubeconfig`, the text of the file. Never shown again.",
    )


@example(examples.CLUSTER_CHANGE)
class ClusterChangeSerializer(serializers.Serializer[Any]):
    region = serializers.CharField(
        max_length=63, allow_blank=True, required=False, help_text="Region, as in the mirrors of images."
    )
    provider = serializers.CharField(max_length=63, allow_blank=True, required=False)
    labels = serializers.DictField(
        child=serializers.CharField(allow_blank=True), required=False, help_text="Replaces all labels."
    )
    settings = serializers.DictField(required=False, help_text="Replaces all connection settings.")
    secrets = serializers.DictField(
        child=serializers.CharField(max_length=MOST_SECRET, allow_null=True, trim_whitespace=False),
        required=False,
        help_text="Secrets by name; null removes one, names left out are kept. Never shown again.",
    )


@example({"host": "gpu-2", "reason": "gpu-1 is broken."})
class ClusterMoveSerializer(serializers.Serializer[Any]):
    host = serializers.CharField(
        max_length=63,
        help_text="Host that runs it from now on: one whose worker or sweeper lives, while those of the "
        "former one do not, or no deployment is left there.",
    )
    reason = serializers.CharField(max_length=MAX_REASON, help_text="Kept in the audit log.")


@example({"days": 365})
class NewAgentTokenSerializer(serializers.Serializer[Any]):
    days = serializers.IntegerField(
        min_value=1, max_value=LONGEST.days, default=TOKEN_LIFE.days, help_text="For how long it is good."
    )
    reason = serializers.CharField(
        max_length=MAX_REASON, required=False, allow_blank=True, help_text="Kept in the audit log."
    )


@example(
    {
        "name": "local/box-1",
        "prefix": "k3Jd81Qw",
        "expires_at": "2027-11-20T08:30:00Z",
        "token": "slp_k3Jd81Qw_0pZ4sKqYc1mWvN7xRt2bHd9uEfGjLa6o",
    }
)
class AgentTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="Its public part, as lists of tokens show it.")
    expires_at = serializers.DateTimeField()
    token = serializers.CharField(help_text="The token; shown only once.")


class GpuSerializer(serializers.ModelSerializer[Gpu]):
    driver = serializers.CharField(help_text="Driver version; empty: unknown.")
    sharing = serializers.ChoiceField(choices=GpuSharing.choices, help_text="Empty: one worker at a time.")

    class Meta:
        model = Gpu
        fields = (
            "uuid",
            "index",
            "name",
            "memory_bytes",
            "driver",
            "serial",
            "pci_bus_id",
            "sharing",
            "state",
            "state_since",
        )


class TaintSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    value = serializers.CharField()
    effect = serializers.ChoiceField(choices=[(effect.value, effect.value) for effect in TaintEffect])


class ConditionSerializer(serializers.Serializer[Any]):
    type = serializers.CharField()
    status = serializers.CharField(help_text="True, False or Unknown.")
    reason = serializers.CharField()
    message = serializers.CharField()


@example(examples.NODE)
class NodeSerializer(serializers.ModelSerializer[Node]):
    labels = serializers.DictField(child=serializers.CharField())
    taints = TaintSerializer(many=True)
    conditions = ConditionSerializer(many=True)
    problem = serializers.CharField(help_text="What could not be read of it, and why; empty: nothing.")
    cordoned_by = serializers.CharField(help_text="Empty when cordoned: not by Slipway.")
    operation = serializers.ChoiceField(
        choices=NodeOperation.choices, help_text="Ordered and not done yet; empty: none."
    )
    operation_problem = serializers.CharField(help_text="Why the last operation was not done.")
    agent_silent_since = serializers.DateTimeField(
        allow_null=True, help_text="When its agent was last heard; null: it reports, or there is none."
    )
    gpus = GpuSerializer(many=True)

    class Meta:
        model = Node
        fields = (
            "id",
            "uid",
            "name",
            "address",
            "boot_id",
            "provider_id",
            "cpu_count",
            "memory_bytes",
            "labels",
            "taints",
            "conditions",
            "is_cordoned",
            "cordoned_by",
            "cordon_reason",
            "cordoned_at",
            "operation",
            "operation_by",
            "operation_problem",
            "group",
            "state",
            "state_since",
            "problem",
            "seen_at",
            "agent_silent_since",
            "gpus",
        )


class LoadSerializer(serializers.Serializer[Any]):
    busy = serializers.FloatField(
        allow_null=True,
        help_text="Busy rate over the last 10 s, 0 to 1; null without workers.",
    )
    in_flight = serializers.IntegerField()
    slots = serializers.IntegerField()
    workers = serializers.IntegerField()
    ready = serializers.IntegerField()
    lost = serializers.IntegerField(help_text="Workers without a heartbeat for more than 5 s.")
    stuck = serializers.IntegerField(
        help_text="Workers whose slots are all busy and that finished no request for a minute."
    )


class NodeLoadSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    load = LoadSerializer()


class SampleSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(help_text="End of the interval.")
    busy = serializers.FloatField(allow_null=True)
    in_flight = serializers.IntegerField()
    slots = serializers.IntegerField()
    workers = serializers.IntegerField()
    nodes = serializers.DictField(child=serializers.FloatField(allow_null=True), help_text="Busy by node id.")


@example(examples.BUSY)
class BusySerializer(serializers.Serializer[Any]):
    live = serializers.BooleanField(help_text="False while no heartbeats are known.")
    now = LoadSerializer()
    nodes = NodeLoadSerializer(many=True)
    history = SampleSerializer(
        many=True,
        help_text="Each minute, ascending; of more than six hours 360 intervals at most.",
    )


class WorkerSerializer(serializers.ModelSerializer[Worker]):
    node = serializers.CharField(source="node.name", default=None, allow_null=True)
    state = serializers.ChoiceField(choices=WorkerState.choices)
    alert = serializers.ChoiceField(choices=Alert.choices, help_text="Alert from its heartbeats.")

    class Meta:
        model = Worker
        fields = (
            "name",
            "uid",
            "node",
            "address",
            "port",
            "pid",
            "state",
            "state_since",
            "restarts",
            "reason",
            "alert",
        )


class FilesFetchSerializer(serializers.Serializer[Any]):
    place = serializers.CharField(help_text="Machine, or volume claim.")
    come_bytes = serializers.IntegerField()
    size_bytes = serializers.IntegerField()
    bytes_per_second = serializers.IntegerField(allow_null=True, help_text="Over the last seconds.")
    left_seconds = serializers.IntegerField(allow_null=True, help_text="null: unknown, or nothing comes.")
    problem = serializers.CharField(
        default="", help_text="Why they have not come yet, or do not come; empty: nothing went wrong."
    )


@example(examples.DEPLOYMENT)
class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    cluster = serializers.CharField(source="cluster.name")
    team = serializers.CharField(source="team.name")
    version = serializers.CharField(source="version_label")
    image = serializers.CharField(
        source="image.name", default=None, allow_null=True, help_text="null: no image needed."
    )
    image_reference = serializers.CharField(
        help_text="Reference that the cluster pulls, with the digest, from the mirror of its region if "
        "there is one."
    )
    image_reason = serializers.CharField(help_text="Reason for this image, or for none.")
    files_reason = serializers.CharField(help_text="How model files get to its workers, and why.")
    fetches = FilesFetchSerializer(many=True, help_text="Model files on their way; empty: none.")
    workers = WorkerSerializer(many=True)

    class Meta:
        model = Deployment
        fields = (
            "name",
            "cluster",
            "team",
            "service",
            "version",
            "engine",
            "replicas",
            "observed_replicas",
            "replicas_by",
            "slots",
            "device",
            "image",
            "image_reference",
            "image_reason",
            "files_reason",
            "fetches",
            "state",
            "state_since",
            "reason",
            "observed_at",
            "created_at",
            "created_by",
            "workers",
        )


@example(examples.WORKER_LOG)
class WorkerLogSerializer(serializers.Serializer[Any]):
    worker = serializers.CharField()
    log = serializers.CharField(help_text="Recent log, including earlier restarts.")
