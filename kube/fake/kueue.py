"""Kueue's kinds, after the definitions of August 2026 (kueue.x-k8s.io/v1beta2).

Fields, defaults and limits are those that Slipway writes or reads. No operator is played here: tests write
the status that it would publish, and suspend or resume its Jobs.
"""

from dataclasses import replace

from kube.fake.extensions import CONDITION, COUNT, FLAG, Schema, custom_kind
from kube.fake.gateway_api import ANYTHING, NUMBER, TEXT, many, struct, with_default
from kube.fake.kinds import ObjectKind

KUEUE, VERSION = "kueue.x-k8s.io", "v1beta2"
NAME: Schema = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
QUANTITY: Schema = {"x-kubernetes-int-or-string": True}
CONDITIONS = many(CONDITION, by="type", most=16)
POLICY: Schema = {"type": "string", "enum": ["Never", "LowerPriority", "Any"]}
STOP = with_default({"type": "string", "enum": ["None", "Hold", "HoldAndDrain"]}, "None")
RESOURCE_GROUPS = many(
    struct(
        ("coveredResources", "flavors"),
        coveredResources=many(TEXT, most=64, least=1),
        flavors=many(
            struct(
                ("name", "resources"),
                name=NAME,
                resources=many(
                    struct(
                        ("name", "nominalQuota"),
                        name=TEXT,
                        nominalQuota=QUANTITY,
                        borrowingLimit=QUANTITY,
                        lendingLimit=QUANTITY,
                    ),
                    by="name",
                    most=64,
                    least=1,
                ),
            ),
            by="name",
            most=64,
            least=1,
        ),
    ),
    most=16,
)
USAGE = many(
    struct(
        ("name", "resources"),
        name=NAME,
        resources=many(struct(("name",), name=TEXT, total=QUANTITY, borrowed=QUANTITY), by="name"),
    ),
    by="name",
    most=64,
)
QUEUE_STATUS = struct(
    admittedWorkloads=COUNT,
    conditions=CONDITIONS,
    flavorsReservation=USAGE,
    flavorsUsage=USAGE,
    pendingWorkloads=COUNT,
    reservingWorkloads=COUNT,
)
CLUSTER_QUEUE = struct(
    spec=struct(
        cohortName=NAME,
        namespaceSelector=ANYTHING,
        preemption=with_default(
            struct(
                borrowWithinCohort=with_default(
                    struct(policy=with_default(POLICY, "Never"), maxPriorityThreshold=NUMBER), {}
                ),
                reclaimWithinCohort=with_default(POLICY, "Never"),
                withinClusterQueue=with_default(
                    {"type": "string", "enum": ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]},
                    "Never",
                ),
            ),
            {},
        ),
        queueingStrategy=with_default(
            {"type": "string", "enum": ["StrictFIFO", "BestEffortFIFO"]}, "BestEffortFIFO"
        ),
        resourceGroups=RESOURCE_GROUPS,
        stopPolicy=STOP,
    ),
    status=QUEUE_STATUS,
)
COHORT = struct(spec=struct(parentName=NAME, resourceGroups=RESOURCE_GROUPS), status=ANYTHING)
LOCAL_QUEUE = struct(
    spec=struct(clusterQueue=NAME, stopPolicy=STOP),
    status=QUEUE_STATUS,
)
FLAVOR = struct(
    spec=struct(nodeLabels=TEXTS, nodeTaints=many(ANYTHING, most=8), tolerations=ANYTHING, topologyName=NAME)
)
LEVELS = many(struct(("nodeLabel",), nodeLabel=TEXT), most=16, least=1)
TOPOLOGY = struct(spec=struct(("levels",), levels=LEVELS))
PRIORITY = struct(("value",), value=NUMBER, description={"type": "string", "maxLength": 2048})
WORKLOAD = struct(
    spec=struct(
        active=with_default(FLAG, True),
        podSets=many(ANYTHING, by="name", most=18),
        priority=NUMBER,
        priorityClassRef=ANYTHING,
        queueName=NAME,
    ),
    status=struct(conditions=CONDITIONS, admission=ANYTHING, requeueState=ANYTHING),
)


def kueue() -> tuple[ObjectKind, ...]:
    inside = (("LocalQueue", "localqueues", LOCAL_QUEUE), ("Workload", "workloads", WORKLOAD))
    outside = (
        ("ClusterQueue", "clusterqueues", CLUSTER_QUEUE),
        ("Cohort", "cohorts", COHORT),
        ("ResourceFlavor", "resourceflavors", FLAVOR),
        ("Topology", "topologies", TOPOLOGY),
        ("WorkloadPriorityClass", "workloadpriorityclasses", PRIORITY),
    )
    return (
        *(custom_kind(KUEUE, VERSION, *one) for one in inside),
        *(replace(custom_kind(KUEUE, VERSION, *one), is_namespaced=False) for one in outside),
    )
