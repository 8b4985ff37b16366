"""A backend belongs to a cluster's row: to its kind, its settings and its secrets, as they are now."""

from collections.abc import Iterator

import pytest
from django.conf import settings as django_settings

from clusters.backends import configured
from clusters.backends.base import ClusterConfig, Misconfigured
from clusters.backends.configured import backend_of
from clusters.backends.embedded import configured as embedded
from clusters.backends.fake import FakeClusterBackend
from clusters.errors import InvalidCluster
from clusters.models import Cluster
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.services.clusters import change_cluster, register_cluster
from common.actor import Actor
from common.fence import Fence
from common.models import AuditRecord
from common.reconcile import kernel
from tests.cast import api, person
from tests.clusters.world import Scene
from tests.contracts.cluster_rigs import wish
from tests.crash.harness import Clock, worker

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
SYSTEM = Actor.system("test")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows of other tests have the same ids."""
    monkeypatch.setattr(configured, "_connected", {})
    return


def cluster(name: str, **fields) -> Cluster:
    return register_cluster(actor=SYSTEM, name=name, kind="embedded", **fields)


def test_two_clusters_of_a_kind_do_not_see_each_others_workers() -> None:
    east, west = cluster("east"), cluster("west")
    spec = wish(replicas=2)

    backend_of(east).apply(spec, fence=Fence(1, 1))

    assert len(backend_of(east).observe(spec.name)) == 2
    assert backend_of(west).observe(spec.name) == ()
    assert backend_of(Cluster.objects.get(pk=east.pk)) is backend_of(east)


def test_a_changed_setting_takes_effect_with_the_next_question() -> None:
    row, other = cluster("east"), cluster("west")
    spec = wish(replicas=1)
    backend_of(other).apply(spec, fence=Fence(1, 1))
    assert backend_of(row).observe(spec.name) == ()

    change_cluster(actor=SYSTEM, cluster=row, settings={"world": "west"})

    assert len(backend_of(Cluster.objects.get(pk=row.pk)).observe(spec.name)) == 1


def test_secrets_are_sealed_reach_the_backend_and_are_never_shown(monkeypatch) -> None:
    given: list[ClusterConfig] = []
    from clusters.backends import fake

    monkeypatch.setattr(fake, "connect", given.append)
    row = cluster("east", secrets={"token": "s3cret"})
    change_cluster(actor=SYSTEM, cluster=row, secrets={"ca.crt": "PEM"})
    backend_of(Cluster.objects.get(pk=row.pk))

    assert given[-1].secrets == {"token": "s3cret", "ca.crt": "PEM"}
    assert "s3cret" not in str(Cluster.objects.values().get(pk=row.pk))
    assert "s3cret" not in repr(given[-1])
    assert "PEM" not in str(list(AuditRecord.objects.values_list("detail", flat=True)))
    shown = api(person("ada", vision="viewer")).get("clusters/east/").json()
    assert (sorted(shown["secrets"]), "s3cret" in str(shown)) == (["ca.crt", "token"], False)

    change_cluster(actor=SYSTEM, cluster=row, secrets={"token": None})
    backend_of(Cluster.objects.get(pk=row.pk))
    assert given[-1].secrets == {"ca.crt": "PEM"}


def test_settings_that_cannot_be_meant_are_refused_at_the_door() -> None:
    row = cluster("east")
    with pytest.raises(InvalidCluster, match="has no setting wrold; it has world"):
        change_cluster(actor=SYSTEM, cluster=row, settings={"wrold": "x"})
    with pytest.raises(InvalidCluster, match="cannot name a secret"):
        change_cluster(actor=SYSTEM, cluster=row, secrets={"../token": "x"})
    assert Cluster.objects.get().settings == {}


def test_a_kind_that_this_installation_lacks_is_told_on_the_row_and_tried_again() -> None:
    scene = Scene()
    Cluster.objects.update(kind="kubernetes", next_at=scene.clock())
    worker([ClusterReconciler()], scene.clock).sweep()
    row = Cluster.objects.get()
    assert row.problem == "This installation cannot run clusters of the kind kubernetes."
    assert row.stuck_at is None


def test_a_secret_under_a_lost_key_is_told_on_the_row(settings) -> None:
    row = cluster("east", secrets={"token": "s3cret"})
    settings.SECRET_KEY = "another"
    Cluster.objects.update(next_at=kernel.clock())
    worker([ClusterReconciler()], Clock(kernel.clock())).sweep()
    row.refresh_from_db()
    assert "another SECRET_KEY" in row.problem


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"home": "/etc"}, "no setting home; it has directory and ports"),
        ({"directory": "../.."}, "directory: give a short name"),
        ({"directory": 7}, "directory: give a short name"),
        ({"ports": "80-90"}, "ports: give the first and last"),
        ({"ports": "22000-21000"}, "ports: give the first and last"),
    ],
)
def test_an_embedded_cluster_says_which_settings_it_takes(settings, fault: str) -> None:
    with pytest.raises(Misconfigured, match=fault):
        embedded.connect(ClusterConfig(name="east", settings=settings))


def test_an_embedded_cluster_stays_in_the_home_of_the_stack() -> None:
    made = embedded.connect(
        ClusterConfig(name="east", settings={"directory": "second", "ports": "22000-22009"})
    )
    assert made._programs_dir == django_settings.SLIPWAY_RUN_DIR / "clusters/second/supervisor.d"
    assert made._slots._ports == (22_000, 22_009)


def test_what_a_removed_cluster_was_reached_by_is_closed_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    class Backend(FakeClusterBackend):
        def close(self) -> None:
            closed.append("closed")

    gone, stays = Backend(), Backend()
    monkeypatch.setattr(configured, "_connected", {1: (1, gone), 2: (1, stays)})
    configured.keep_only({2})
    assert closed == ["closed"]
    assert configured._connected == {2: (1, stays)}
