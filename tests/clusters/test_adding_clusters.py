"""Clusters are added with sealed credentials, checked again and again, and go when nothing runs there."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import yaml
from django.utils import timezone

from clusters import selectors
from clusters.backends.checks import CheckResult as Found
from clusters.backends.checks import ClusterCheck
from clusters.backends.configured import connect
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.errors import ClusterInUse, ClusterMissing, ClusterRemoving, FleetNameTaken, InvalidCluster
from clusters.events import ClusterChecksFailed, ClusterRemoved
from clusters.models import Cluster, Node
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.services.cluster_removal import remove_cluster
from clusters.services.clusters import change_cluster, check_cluster, register_cluster
from clusters.services.deployments import remove_deployment
from clusters.services.node_agents import issue_node_token
from clusters.states import ClusterState, DeploymentState, NodeState
from common import events
from common.errors import Invalid
from common.models import AuditRecord
from gateway.models import Gateway, Route
from gateway.selectors import gateways
from tests.cast import SYSTEM, api, person
from tests.clusters.kubernetes.kubeconfigs import EXEC, kubeconfig
from tests.clusters.test_services import ensure
from tests.clusters.world import Scene, node_of
from tests.crash.harness import Clock, worker

pytestmark = pytest.mark.django_db
WHY = "The machines go back to their owner."


@pytest.fixture
def kubernetes(settings) -> None:
    settings.SLIPWAY_CLUSTER_BACKENDS = settings.SLIPWAY_CLUSTER_BACKENDS | {
        "kubernetes": "clusters.backends.kubernetes.configured"
    }


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    Cluster.objects.filter(pk=scene.cluster.pk).update(next_at=scene.clock())
    return scene


@pytest.fixture
def heard() -> Iterator[list[object]]:
    told: list[object] = []
    subscribers = events._subscribers
    before = {kind: list(found) for kind, found in subscribers.items()}
    for kind in (ClusterChecksFailed, ClusterRemoved):
        events.subscribe(kind, told.append)
    yield told
    subscribers.clear()
    subscribers.update(before)


def looked_at(scene: Scene) -> Cluster:
    scene.cluster.refresh_from_db()
    return scene.cluster


def prod(**said: object) -> Cluster:
    given = {"name": "prod", "kind": "kubernetes", "secrets": {"kubeconfig": kubeconfig()}}
    return register_cluster(actor=SYSTEM, **given | said)  # type: ignore[arg-type]


@pytest.mark.usefixtures("kubernetes")
def test_a_cluster_is_added_with_its_labels_and_a_sealed_kubeconfig() -> None:
    row = prod(region="eu-central", provider="aws", labels={"tier": "gold"}, settings={"namespace": "ml"})
    row.refresh_from_db()
    assert (row.region, row.provider, row.labels) == ("eu-central", "aws", {"tier": "gold"})
    assert "a-token-that-nobody-may-see" not in str(row.sealed_secrets)
    assert row.state is ClusterState.CHECKING
    assert "a-token" not in str(AuditRecord.objects.get(action="cluster.register").detail)


@pytest.mark.usefixtures("kubernetes")
def test_adding_the_same_again_changes_nothing_and_another_credential_is_another_cluster() -> None:
    first = prod(region="eu")
    change_cluster(actor=SYSTEM, cluster=first, provider="aws")
    assert prod(region="eu") == first
    with pytest.raises(FleetNameTaken, match="change that one"):
        prod(secrets={"kubeconfig": kubeconfig(token="another")})
    with pytest.raises(FleetNameTaken):
        prod(region="us")


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"secrets": {"kubeconfig": EXEC}}, "signs in by the program 'aws'.*service account"),
        ({"secrets": {}}, "Give the secret kubeconfig"),
        ({"secrets": {"kubeconfig": "]["}}, "no YAML"),
        ({"secrets": {"kubeconfig": kubeconfig(), "token": "x"}}, "no secret token"),
        ({"settings": {"context": "test"}}, "no context 'test'. It has: prod"),
        ({"settings": {"namespace": "No Such"}}, "namespace"),
        ({"settings": {"colour": "red"}}, "colour: no such setting"),
        ({"labels": {"a b": "c"}}, "a b is no label"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(said, fault) -> None:
    with pytest.raises(InvalidCluster, match=f"(?s){fault}"):
        prod(**said)
    assert not Cluster.objects.exists()


@pytest.mark.usefixtures("kubernetes")
def test_one_that_does_not_answer_is_told_as_that_and_stays() -> None:
    row = prod()
    clock = Clock(timezone.now())
    worker([ClusterReconciler(connect)], clock).sweep()
    row.refresh_from_db()
    assert [(one["name"], one["result"]) for one in row.checks] == [("reachable", "failed")]
    assert "127.0.0.1:1" in row.checks[0]["detail"]
    assert row.state is ClusterState.UNAVAILABLE


@pytest.mark.usefixtures("kubernetes")
def test_each_row_is_connected_to_with_its_own_settings() -> None:
    found = connect(prod(settings={"namespace": "ml"}))
    assert isinstance(found, KubernetesCluster)
    assert found._settings.namespace == "ml"


def test_its_checks_are_kept_and_made_anew_when_somebody_asks(scene, heard) -> None:
    scene.pass_(1)
    assert looked_at(scene).state is ClusterState.READY
    assert scene.cluster.checks[0] == {
        "name": "reachable", "result": "passed", "detail": "The fake answers."
    }  # fmt: skip
    scene.world.also_checked = (ClusterCheck("GPUs", Found.WARNING, "It offers none."),)
    scene.pass_(60)
    assert looked_at(scene).state is ClusterState.READY

    scene.cluster.check_asked_at = None
    row = check_cluster(actor=SYSTEM, cluster=scene.cluster)
    Cluster.objects.update(check_asked_at=scene.clock())
    row.refresh_from_db()
    assert row.state is ClusterState.CHECKING
    scene.pass_(1)
    assert looked_at(scene).state is ClusterState.WARNING
    assert heard == []


def test_checks_are_made_anew_by_themselves_and_a_new_failure_is_told_once(
    scene, heard, django_capture_on_commit_callbacks
) -> None:
    scene.pass_(1)
    scene.world.also_checked = (ClusterCheck("namespace ml", Found.FAILED, "There is no namespace ml."),)
    with django_capture_on_commit_callbacks(execute=True):
        scene.pass_(60 * 31, by=10)
    assert looked_at(scene).state is ClusterState.NOT_READY
    assert heard == [ClusterChecksFailed(scene.cluster.pk)]


def test_one_out_of_reach_is_unavailable_whatever_its_checks_said(scene) -> None:
    scene.pass_(1)
    scene.world.reachable = False
    scene.pass_(11)
    assert looked_at(scene).state is ClusterState.UNAVAILABLE


def test_a_cluster_in_use_is_not_removed_and_says_by_what(scene) -> None:
    ensure(scene)
    gateway = Gateway.objects.create(cluster=scene.cluster, kind="envoy")
    Route.objects.create(
        gateway=gateway, service="chat", stable_target="chat-v1", stable_version="story:v1", writer=0,
        writer_turn=0, changed_at=timezone.now(),
    )  # fmt: skip
    with pytest.raises(ClusterInUse, match="deployment chat-v1, the route of service chat"):
        remove_cluster(actor=SYSTEM, cluster=scene.cluster, reason=WHY)
    assert looked_at(scene).removal_asked_at is None
    with pytest.raises(Invalid, match="reason"):
        remove_cluster(actor=SYSTEM, cluster=scene.cluster, reason=" ")


def test_a_removed_cluster_is_gone_with_its_secrets_and_its_name_is_free(
    scene, heard, django_capture_on_commit_callbacks
) -> None:
    Cluster.objects.update(sealed_secrets={"kubeconfig": "sealed"})
    node_of(scene.cluster)
    Gateway.objects.create(cluster=scene.cluster, kind="envoy")
    ensure(scene)
    remove_deployment(actor=SYSTEM, name="chat-v1", reason="old")
    scene.pass_(2)
    scene.world.reachable = False
    with django_capture_on_commit_callbacks(execute=True):
        remove_cluster(actor=SYSTEM, cluster=looked_at(scene), reason=WHY)
        remove_cluster(actor=SYSTEM, cluster=looked_at(scene), reason=WHY)
        assert looked_at(scene).state is ClusterState.REMOVING
        scene.pass_(1)
    row = looked_at(scene)
    assert row.removed_at is not None
    assert (row.sealed_secrets, row.next_at) == ({}, None)
    assert heard == [ClusterRemoved(row.pk)]
    assert Node.objects.get(uid="uid-of-box").state == NodeState.GONE
    assert not gateways().exists()
    with pytest.raises(ClusterMissing):
        selectors.cluster("local")
    assert AuditRecord.objects.filter(action__startswith="cluster.remove").count() == 2
    assert register_cluster(actor=SYSTEM, name="local", kind="embedded").pk != row.pk


def test_nothing_new_goes_to_a_cluster_that_goes_and_what_came_at_that_moment_is_waited_for(scene) -> None:
    late = scene.deployment(state=DeploymentState.REMOVED, next_at=None)
    remove_cluster(actor=SYSTEM, cluster=scene.cluster, reason=WHY)
    with pytest.raises(ClusterRemoving):
        ensure(scene, name="chat-v2", op_key="another")
    with pytest.raises(ClusterRemoving):
        check_cluster(actor=SYSTEM, cluster=scene.cluster)
    type(late).objects.update(state=DeploymentState.READY)
    scene.clock.pass_(timedelta(seconds=5))
    worker([ClusterReconciler(lambda _: scene.world)], scene.clock).sweep()
    assert looked_at(scene).removed_at is None
    assert scene.cluster.problem == "Still in use: deployment chat-v1."


@pytest.mark.usefixtures("kubernetes")
def test_over_rest_a_cluster_is_added_checked_and_removed_and_its_secrets_never_shown() -> None:
    ada = api(person("ada", vision="operator"))
    wish = {
        "name": "prod", "team": "vision", "region": "eu", "labels": {"tier": "gold"},
        "settings": {"namespace": "ml"}, "secrets": {"kubeconfig": kubeconfig()},
    }  # fmt: skip
    made = ada.post("clusters/", wish, Idempotency_Key="one")
    assert (made.status_code, made["Location"]) == (201, "/api/v1/clusters/prod/")
    assert ada.post("clusters/", wish, Idempotency_Key="one").json() == made.json()
    shown = ada.get("clusters/prod/").json()
    assert (shown["secrets"], shown["state"], shown["checks"]) == (["kubeconfig"], "checking", [])
    assert "a-token-that-nobody-may-see" not in str(shown)
    assert [row["name"] for row in ada.get("clusters/?region=eu&kind=kubernetes").json()["results"]] == [
        "prod"
    ]

    refused = ada.post("clusters/", wish | {"name": "two", "secrets": {"kubeconfig": EXEC}})
    assert refused.status_code == 400
    assert "service account" in refused.json()["errors"]["secrets"][0]
    refused = ada.post("clusters/", {**wish, "name": "shared", "team": None} | {"secrets": {}})
    assert refused.status_code == 400

    assert ada.post("clusters/prod/check/").status_code == 202
    changed = ada.patch("clusters/prod/", {"labels": {"tier": "silver"}})
    assert changed.json()["labels"] == {"tier": "silver"}
    assert ada.delete("clusters/prod/").status_code == 400
    gone = ada.delete("clusters/prod/?reason=It+is+sold.")
    assert (gone.status_code, gone.json()["state"]) == (202, "removing")
    assert api(person("eve", speech="admin")).delete("clusters/prod/?reason=x").status_code == 404


def test_the_manifest_is_yaml_of_the_least_that_is_needed() -> None:
    ada = api(person("ada", vision="viewer"))
    answer = ada.get("clusters/manifest/?namespace=ml&features=gateway")
    assert answer["Content-Type"] == "application/yaml"
    kinds = [one["kind"] for one in yaml.safe_load_all(answer.content)]
    assert kinds[:3] == ["Namespace", "ServiceAccount", "Secret"]
    assert b"httproutes" in answer.content
    assert b"jobs" not in answer.content
    for query in ("features=magic", "namespace=No+Such", "feature=gateway"):
        assert ada.get(f"clusters/manifest/?{query}").status_code == 400


def test_whoever_spoke_for_a_removed_cluster_speaks_no_more(scene) -> None:
    issued = issue_node_token(
        actor=SYSTEM,
        cluster=scene.cluster,
        node_uid="box",
        node_name="box",
        lives=timedelta(days=9),
        reason="",
    )
    remove_cluster(actor=SYSTEM, cluster=scene.cluster, reason=WHY)
    scene.pass_(1)
    issued.token.refresh_from_db()
    assert issued.token.revoked_at is not None
    assert AuditRecord.objects.get(action="token.revoke").reason == "The cluster local was removed."
