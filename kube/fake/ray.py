"""KubeRay's kinds, after the definitions of August 2026 (ray.io/v1).

Fields, defaults and limits are those that Slipway writes or reads. No operator is played here: tests write
the status that it would publish.
"""

from dataclasses import replace

from kube.fake.extensions import CONDITION, COUNT, FLAG, Schema, custom_kind, with_pod_templates
from kube.fake.gateway_api import ANYTHING, NUMBER, TEXT, many, struct, with_default
from kube.fake.kinds import ObjectKind

RAY = "ray.io"
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
CONDITIONS = many(CONDITION, by="type")
CLUSTER = struct(
    ("headGroupSpec",),
    enableInTreeAutoscaling=FLAG,
    rayVersion=TEXT,
    suspend=FLAG,
    headGroupSpec=struct(("rayStartParams", "template"), rayStartParams=TEXTS, template=ANYTHING),
    workerGroupSpecs=many(
        struct(
            ("groupName", "maxReplicas", "minReplicas", "rayStartParams", "template"),
            groupName=TEXT,
            replicas=with_default(COUNT, 0),
            minReplicas=with_default(COUNT, 0),
            maxReplicas=with_default(COUNT, 2_147_483_647),
            numOfHosts=with_default(NUMBER, 1),
            rayStartParams=TEXTS,
            template=ANYTHING,
        )
    ),
)
CLUSTER_STATUS = struct(
    conditions=CONDITIONS,
    state=TEXT,
    reason=TEXT,
    desiredWorkerReplicas=NUMBER,
    readyWorkerReplicas=NUMBER,
    observedGeneration=NUMBER,
)
MODES = ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]
RAY_JOB = struct(
    spec=struct(
        activeDeadlineSeconds=NUMBER,
        backoffLimit=with_default(NUMBER, 0),
        entrypoint=TEXT,
        rayClusterSpec=CLUSTER,
        runtimeEnvYAML=TEXT,
        shutdownAfterJobFinishes=FLAG,
        submissionMode=with_default({"type": "string", "enum": MODES}, "K8sJobMode"),
        suspend=FLAG,
        ttlSecondsAfterFinished=with_default(NUMBER, 0),
    ),
    status=struct(
        jobDeploymentStatus=TEXT,
        jobId=TEXT,
        jobStatus=TEXT,
        message=TEXT,
        rayClusterName=TEXT,
        rayClusterStatus=CLUSTER_STATUS,
        reason=TEXT,
        observedGeneration=NUMBER,
    ),
)
APPLICATIONS: Schema = {
    "type": "object",
    "additionalProperties": struct(
        message=TEXT,
        status=TEXT,
        serveDeploymentStatuses={
            "type": "object",
            "additionalProperties": struct(message=TEXT, status=TEXT),
        },
    ),
}
SERVED = struct(applicationStatuses=APPLICATIONS, rayClusterName=TEXT, rayClusterStatus=CLUSTER_STATUS)
RAY_SERVICE = struct(
    spec=struct(
        ("rayClusterConfig",),
        rayClusterConfig=CLUSTER,
        serveConfigV2=TEXT,
        suspend=FLAG,
    ),
    status=struct(
        activeServiceStatus=SERVED,
        conditions=CONDITIONS,
        numServeEndpoints=NUMBER,
        observedGeneration=NUMBER,
        pendingServiceStatus=SERVED,
        serviceStatus=TEXT,
    ),
)


def kuberay() -> tuple[ObjectKind, ...]:
    kinds = (
        custom_kind(RAY, "v1", "RayCluster", "rayclusters", struct(spec=CLUSTER, status=CLUSTER_STATUS)),
        custom_kind(RAY, "v1", "RayJob", "rayjobs", RAY_JOB),
        custom_kind(RAY, "v1", "RayService", "rayservices", RAY_SERVICE),
    )
    return tuple(replace(one, shape=with_pod_templates(one.shape, "template")) for one in kinds)
