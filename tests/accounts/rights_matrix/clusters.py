import hashlib
from collections.abc import Mapping
from itertools import count
from typing import Any

from accounts.states import Right
from clusters.backends.fake import NODE
from clusters.models import AgentToken, Deployment, Drain, FilesToken, RelayToken
from gateway.models import Gateway
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.clusters.model_files import deployed, stored_version

_numbers = count(1)


def _cluster(scene: Scene) -> Mapping[str, Any]:
    return {"cluster": scene.cluster.name}


def _here(scene: Scene) -> Mapping[str, Any]:
    """Move a cluster to the host that it already has."""
    scene.cluster.change(host="here")
    return {"host": "here", "reason": "The machine is broken."}


def _gateway(scene: Scene) -> Mapping[str, Any]:
    Gateway.objects.get_or_create(cluster=scene.cluster, defaults={"kind": "envoy"})
    return _cluster(scene)


def _node(scene: Scene) -> Mapping[str, Any]:
    return {"cluster": scene.cluster.name, "id": scene.cluster.nodes.get().pk}


def _cordoned_node(scene: Scene) -> Mapping[str, Any]:
    scene.cluster.nodes.update(is_cordoned=True, cordoned_by="somebody")
    return _node(scene)


def _fake_node(scene: Scene) -> Mapping[str, Any]:
    """A node that its cluster shows."""
    scene.cluster.nodes.update(uid=NODE.uid)
    return _node(scene)


def _drain(scene: Scene) -> Mapping[str, Any]:
    row = Drain.objects.get_or_create(
        node=scene.cluster.nodes.get(), state="cordoning", defaults={"by": "somebody", "reason": "A fan."}
    )[0]
    return {"cluster": scene.cluster.name, "id": row.pk}


def _deployment(scene: Scene) -> Mapping[str, Any]:
    return {"deployment": scene.worker.deployment.name}


def _scaled(scene: Scene) -> Mapping[str, Any]:
    """Let somebody have set the workers past Slipway."""
    Deployment.objects.filter(pk=scene.worker.deployment_id).update(observed_replicas=3)
    return _deployment(scene)


def _worker(scene: Scene) -> Mapping[str, Any]:
    return {"worker": scene.worker.name}


def _report(scene: Scene) -> Mapping[str, Any]:
    """Let the caller's token speak for the machine."""
    token = scene.user.tokens.latest("pk")
    AgentToken.objects.update_or_create(token=token, defaults={"cluster": scene.cluster, "node_uid": "box"})
    return {"node": "box", "session": "matrix-session", "sequence": 1, "workers": [], "devices": []}


def _relay(scene: Scene) -> Mapping[str, Any]:
    """Let the caller's token speak for the cluster."""
    RelayToken.objects.get_or_create(cluster=scene.cluster, token=scene.user.tokens.latest("pk"))
    return {"session": "matrix", "sequence": next(_numbers), "machines": []}


def _files(scene: Scene) -> Mapping[str, Any]:
    """Let the caller's token speak for the cluster that runs the version."""
    content = scene.cluster.name.encode()
    version = stored_version(scene.team, {"a.txt": content}, label=f"{scene.cluster.name}:{new_name()}")
    deployed(scene.cluster, version, name=new_name())
    FilesToken.objects.get_or_create(cluster=scene.cluster, token=scene.user.tokens.latest("pk"))
    return {"version": version.pk, "sha256": hashlib.sha256(content).hexdigest()}


def _charted(scene: Scene) -> dict[str, Any]:
    return {"kind": "worker", "name": _worker(scene)["worker"]}


ROUTES = [
    Route("GET", "clusters/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "clusters/",
        Right.FLEET_OPERATE,
        body=lambda scene: {"name": new_name(), "kind": "embedded", "team": scene.team.name},
        status=201,
        owned=False,
    ),
    Route("GET", "clusters/manifest/", Access.SIGNED_IN, owned=False),
    Route("GET", "clusters/{cluster}/", Right.READ, fill=_cluster),
    Route("POST", "clusters/{cluster}/check/", Right.FLEET_OPERATE, fill=_cluster, status=202),
    Route(
        "DELETE",
        "clusters/{cluster}/",
        Right.FLEET_OPERATE,
        fill=_cluster,
        query="?reason=It+is+sold.",
        status=202,
    ),
    Route(
        "PATCH",
        "clusters/{cluster}/",
        Right.FLEET_OPERATE,
        fill=_cluster,
        body=lambda scene: {"region": "eu"},
    ),
    Route(
        "POST",
        "clusters/{cluster}/move/",
        Right.FLEET_OPERATE,
        fill=_cluster,
        body=_here,
        status=200,
    ),
    Route("GET", "clusters/{cluster}/busy/", Right.READ, fill=_cluster),
    Route("GET", "clusters/{cluster}/capacity/", Right.READ, fill=_cluster),
    Route("GET", "clusters/{cluster}/gateway/", Right.READ, fill=_gateway),
    Route(
        "PUT",
        "clusters/{cluster}/gateway/",
        Right.FLEET_OPERATE,
        fill=_cluster,
        body=lambda scene: {"kind": "envoy"},
        status=201,
    ),
    Route(
        "DELETE",
        "clusters/{cluster}/gateway/",
        Right.FLEET_OPERATE,
        fill=_gateway,
        query="?reason=It+is+replaced.",
        status=204,
    ),
    Route("GET", "clusters/{cluster}/nodes/", Right.READ, fill=_cluster),
    Route("GET", "clusters/{cluster}/nodes/{id}/", Right.READ, fill=_node),
    Route("GET", "clusters/{cluster}/nodes/{id}/events/", Right.READ, fill=_node),
    Route(
        "POST",
        "clusters/{cluster}/nodes/{id}/cordon/",
        Right.FLEET_OPERATE,
        fill=_node,
        body=lambda scene: {"reason": "GPU 0 is to be replaced."},
        status=202,
    ),
    Route(
        "POST",
        "clusters/{cluster}/nodes/{id}/uncordon/",
        Right.FLEET_OPERATE,
        fill=_cordoned_node,
        body=lambda scene: {"reason": "GPU 0 is replaced."},
        status=202,
    ),
    Route("POST", "clusters/{cluster}/nodes/{id}/drain-preview/", Right.FLEET_OPERATE, fill=_fake_node),
    Route(
        "POST",
        "clusters/{cluster}/nodes/{id}/drain/",
        Right.FLEET_OPERATE,
        fill=_node,
        body=lambda scene: {"reason": "GPU 0 is to be replaced."},
        status=202,
    ),
    Route("GET", "clusters/{cluster}/drains/", Right.READ, fill=_cluster),
    Route("GET", "clusters/{cluster}/drains/{id}/", Right.READ, fill=_drain),
    Route(
        "POST",
        "clusters/{cluster}/drains/{id}/cancel/",
        Right.FLEET_OPERATE,
        fill=_drain,
        body=lambda scene: {"reason": "Wrong machine."},
        status=202,
    ),
    Route(
        "POST",
        "clusters/{cluster}/nodes/{id}/agent-token/",
        Right.FLEET_OPERATE,
        fill=_node,
        body=lambda scene: {"days": 30},
        status=201,
    ),
    Route(
        "POST",
        "clusters/{cluster}/nodes/{id}/remove-agent/",
        Right.FLEET_OPERATE,
        fill=_node,
        body=lambda scene: {"reason": "Its workers report by themselves."},
    ),
    Route("GET", "model-files/{version}/", Right.FLEET_FETCH, fill=_files, owned=False),
    Route("GET", "model-files/{version}/{sha256}/", Right.FLEET_FETCH, fill=_files, owned=False),
    Route("GET", "deployments/", Access.SIGNED_IN, owned=False),
    Route("GET", "deployments/{deployment}/", Right.READ, fill=_deployment),
    Route(
        "POST",
        "deployments/{deployment}/take-back/",
        Right.FLEET_OPERATE,
        fill=_scaled,
        body=lambda scene: {"reason": "Nobody knows who set them."},
        status=202,
    ),
    Route("GET", "workers/", Access.SIGNED_IN, owned=False),
    Route("GET", "charts/{kind}/{name}/", Right.READ, fill=_charted),
    Route("GET", "workers/{worker}/log/", Right.READ, fill=_worker),
    Route("POST", "heartbeats/", Right.FLEET_REPORT, body=lambda scene: {"workers": []}, owned=False),
    Route("POST", "relay-reports/", Right.FLEET_REPORT, body=_relay, owned=False),
    Route("POST", "node-reports/", Right.FLEET_REPORT, body=_report, owned=False),
]
