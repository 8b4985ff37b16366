"""Machines of a cluster get the token with which they fetch model files, and a new one before it ends."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import ApiToken
from clusters.backends.configured import SECRETS_PURPOSE
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import FileDeliveryKind, KubernetesSettings
from clusters.models import Cluster
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.states import ClusterKind
from common.sealed import unseal
from kube.resources import SECRETS, Ref
from tests.clusters.kubernetes.test_backend import SETTINGS, World
from tests.crash.harness import Checkpoints, Clock, worker

SECRET = Ref(SECRETS, "slipway-store", "slipway")


def held(world: World) -> str:
    return base64.b64decode(world.client.get(SECRET)["data"]["token"]).decode()


def cluster_with(world: World, token: str, settings: KubernetesSettings = SETTINGS) -> KubernetesCluster:
    return KubernetesCluster(world.client, settings, store_token=token)


def test_it_is_written_into_each_namespace_and_renewed_there() -> None:
    world = World()
    for token in ("first", "first", "second"):
        cluster_with(world, token).hand_out_secrets()
        assert held(world) == token
    assert world.client.get(Ref(SECRETS, "slipway-store", "team-a"))["data"]


def test_a_secret_that_somebody_made_themselves_stays() -> None:
    world = World()
    theirs = {"token": base64.b64encode(b"theirs").decode()}
    metadata = {"name": "slipway-store", "namespace": "slipway"}
    world.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": theirs})
    cluster_with(world, "ours").hand_out_secrets()
    assert held(world) == "theirs"


def test_where_files_lie_on_a_claim_nobody_needs_one() -> None:
    world = World()
    settings = KubernetesSettings(model_files=FileDeliveryKind.CLAIM)
    cluster_with(world, "ours", settings).hand_out_secrets()
    assert world.client.list(SECRETS, namespace="slipway").items == ()


class ClusterRowStandIn:
    """A cluster's row, whose backend is made from it as it is."""

    def __init__(self, **settings: Any) -> None:
        self.world = World()
        self.clock = Clock(timezone.now())
        self.row = Cluster.objects.create(
            name="west", kind=ClusterKind.KUBERNETES, settings=settings, next_at=self.clock()
        )

    def backend_of(self, row: Cluster) -> KubernetesCluster:
        return cluster_with(self.world, self.token_of(row))

    def token_of(self, row: Cluster) -> str:
        sealed = row.sealed_secrets.get("store-token", "")
        return unseal(sealed, purpose=SECRETS_PURPOSE) if sealed else ""

    def let_pass(self, span: timedelta) -> None:
        self.clock.pass_(span)
        kernel = worker([ClusterReconciler(self.backend_of, lambda _: {})], self.clock, Checkpoints())
        for _ in range(6):
            kernel.sweep()
            self.clock.pass_(timedelta(seconds=11))
        self.row.refresh_from_db()


@pytest.mark.django_db(transaction=True)
def test_a_cluster_that_keeps_a_cache_gets_its_token_at_once_and_another_before_it_ends() -> None:
    kept = ClusterRowStandIn(store_url="https://slipway.example")
    kept.let_pass(timedelta())
    first = held(kept.world)
    assert first == kept.token_of(kept.row) != ""
    kept.let_pass(timedelta(days=1))
    assert held(kept.world) == first
    ApiToken.objects.update(expires_at=kept.clock() + timedelta(days=30))
    kept.let_pass(timedelta(hours=1))
    assert held(kept.world) == kept.token_of(kept.row) != first
    assert ApiToken.objects.filter(revoked_at=None).count() == 2  # pods that began with the first go on


@pytest.mark.django_db(transaction=True)
def test_a_cluster_that_keeps_none_gets_no_token() -> None:
    kept = ClusterRowStandIn(store_url="https://slipway.example", model_files="claim")
    kept.let_pass(timedelta())
    assert kept.row.sealed_secrets == {}
