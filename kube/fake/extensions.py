"""Kinds of extensions: LeaderWorkerSet v1.

Schemas after the definitions of August 2026: fields, defaults and limits that Slipway writes or reads.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kube.fake.gateway_api import ANYTHING, NUMBER, TEXT, many, struct, with_default
from kube.fake.kinds import ObjectKind
from kube.fake.schema import FieldSchema, of_definition, shape_of

Schema = dict[str, Any]
LEADER_WORKER_SET = "leaderworkerset.x-k8s.io"
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
CONDITION = struct(
    ("lastTransitionTime", "message", "reason", "status", "type"),
    lastTransitionTime=TIME,
    message=TEXT,
    observedGeneration=NUMBER,
    reason=TEXT,
    status={"type": "string", "enum": ["True", "False", "Unknown"]},
    type=TEXT,
)
RESTARTS = ["Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]
LEADER_WORKER_SETS = struct(
    spec=struct(
        ("leaderWorkerTemplate",),
        replicas=with_default(COUNT, 1),
        startupPolicy=with_default(
            {"type": "string", "enum": ["LeaderCreated", "LeaderReady"]}, "LeaderCreated"
        ),
        networkConfig=struct(("subdomainPolicy",), subdomainPolicy=TEXT),
        rolloutStrategy=struct(
            ("type",),
            type=with_default({"type": "string", "enum": ["RollingUpdate"]}, "RollingUpdate"),
            rollingUpdateConfiguration=struct(
                maxSurge=with_default({"x-kubernetes-int-or-string": True}, 0),
                maxUnavailable=with_default({"x-kubernetes-int-or-string": True}, 1),
                partition=with_default(COUNT, 0),
            ),
        ),
        leaderWorkerTemplate=struct(
            ("workerTemplate",),
            leaderTemplate=ANYTHING,
            workerTemplate=ANYTHING,
            restartPolicy=with_default({"type": "string", "enum": RESTARTS}, "RecreateGroupOnPodRestart"),
            size=with_default({"type": "integer", "minimum": 1}, 1),
            subGroupPolicy=struct(subGroupSize=NUMBER, type=TEXT),
        ),
    ),
    status=struct(
        conditions=many(CONDITION, by="type"),
        hpaPodSelector=TEXT,
        observedGeneration=NUMBER,
        readyReplicas=NUMBER,
        replicas=NUMBER,
        updatedReplicas=NUMBER,
    ),
)


def custom_kind(
    group: str, version: str, name: str, plural: str, schema: Schema, *, scaled: bool = False
) -> ObjectKind:
    whole = json.loads(json.dumps(schema))
    return ObjectKind(
        group,
        version,
        name,
        plural,
        shape=of_definition(whole),
        subresources=frozenset({"status", "scale"} if scaled else {"status"}),
        has_generation=True,
        is_custom=True,
        openapi=whole,
    )


def with_pod_templates(shape: FieldSchema, *names: str) -> FieldSchema:
    """Merge fields of these names, anywhere, as pod templates."""
    fields: Mapping[str, FieldSchema] = {
        name: shape_of("V1PodTemplateSpec") if name in names else with_pod_templates(one, *names)
        for name, one in shape.fields.items()
        if name != "metadata"
    }
    if not shape.name and shape.kind == "struct":
        kept = {name: one for name, one in shape.fields.items() if name == "metadata"}
        return replace(shape, fields={**fields, **kept})
    return shape


def _leader_worker_sets() -> ObjectKind:
    kind = custom_kind(
        LEADER_WORKER_SET, "v1", "LeaderWorkerSet", "leaderworkersets", LEADER_WORKER_SETS, scaled=True
    )
    return replace(kind, shape=with_pod_templates(kind.shape, "leaderTemplate", "workerTemplate"))


EXTENSIONS: tuple[ObjectKind, ...] = (_leader_worker_sets(),)
"""Of a cluster that has them installed, beside the built-in kinds."""
