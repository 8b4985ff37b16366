"""A cluster that runs on a host itself, looked at from another one, and given to it."""

import pytest
from django.utils import timezone

from clusters.backends.base import ClusterUnreachable
from clusters.backends.configured import backend_of
from clusters.errors import HostInUse, InvalidCluster
from clusters.models import Cluster, Worker
from clusters.services.clusters import move_cluster, register_cluster
from clusters.services.logs import worker_log
from common.actor import Actor
from common.errors import Unavailable
from common.models import AuditRecord, Pulse
from common.reconcile.pulses import ProcessIdentity, WorkDone, give
from gateway.backends.configured import backends_of, forget
from gateway.errors import GatewayUnreachable
from gateway.models import Gateway
from tests.cast import api, client_of, person
from tests.clusters.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
SYSTEM = Actor.system("test")


def alive(*hosts: str) -> None:
    for number, host in enumerate(hosts, start=1):
        give(ProcessIdentity("worker", host, number, f"box-{host}"), at=timezone.now(), work=WorkDone())


@pytest.fixture
def local(settings) -> Cluster:
    """A cluster of the host prague, seen from brno."""
    forget()
    settings.SLIPWAY_HOST = "prague"
    row = register_cluster(actor=SYSTEM, name="local", kind="embedded")
    settings.SLIPWAY_HOST = "brno"
    return row


def test_from_another_host_nothing_is_asked_or_told_over_files(local: Cluster) -> None:
    with pytest.raises(ClusterUnreachable, match="prague"):
        backend_of(local)
    gateway = Gateway.objects.select_related("cluster").get(cluster=local)
    assert gateway.host == "prague"
    with pytest.raises(GatewayUnreachable, match="prague"):
        backends_of(gateway).traffic.refresh()


def test_it_goes_to_a_host_that_lives_with_its_gateway_once_its_own_does_not(local: Cluster) -> None:
    deployment = Scene().deployment(cluster=local, applied_generation=3, lane_host="prague")
    with pytest.raises(InvalidCluster, match="No worker or sweeper of brno"):
        move_cluster(actor=SYSTEM, cluster=local, host="brno", reason="It burnt down.")
    alive("prague", "brno")
    local.refresh_from_db()
    with pytest.raises(HostInUse, match="prague is alive"):
        move_cluster(actor=SYSTEM, cluster=local, host="brno", reason="It burnt down.")

    Pulse.objects.filter(host="prague").delete()
    local.refresh_from_db()
    move_cluster(actor=SYSTEM, cluster=local, host="brno", reason="It burnt down.")
    deployment.refresh_from_db()
    assert (deployment.applied_generation, deployment.lane_host) == (0, "")
    gateway = Gateway.objects.select_related("cluster").get(cluster=local)
    assert gateway.host == "brno"
    backends_of(gateway).traffic.refresh()
    assert backend_of(local).health().ok


def test_a_log_of_a_silent_host_is_not_waited_for(local: Cluster) -> None:
    row = Scene().deployment(cluster=local)
    worker = Worker.objects.create(
        deployment=row, uid="chat-v1-0", name="chat-v1-0", state="ready", state_since=timezone.now()
    )
    with pytest.raises(Unavailable, match="prague gives no sign of life"):
        worker_log(actor=SYSTEM, worker=worker.name, lines=10)


def test_it_is_moved_from_its_page_and_by_rest_alike(local: Cluster) -> None:
    Scene().deployment(cluster=local)
    alive("prague", "brno")
    root = person("root", superuser=True)
    page = client_of(root)
    shown = page.get("/fleet/clusters/local/").content.decode()
    assert "Move to another host" in shown
    assert '<option value="brno">brno</option>' in shown
    assert '<option value="prague">' not in shown
    wish = {"host": "brno", "reason": "It burnt down."}

    answers = [
        page.post("/fleet/clusters/local/+move/", wish, headers={"HX-Request": "true"}),
        api(root).post("clusters/local/move/", wish),
    ]
    assert [answer.status_code for answer in answers] == [422, 409]
    for answer in answers:
        assert "prague is alive, and deployments have workers there (1)" in answer.content.decode()

    Pulse.objects.filter(host="prague").delete()
    told = api(root).post("clusters/local/move/", {"host": "brno"})
    assert (told.status_code, "reason" in told.content.decode()) == (400, True)
    moved = page.post("/fleet/clusters/local/+move/", wish)
    assert (moved.status_code, moved["Location"]) == (302, "/fleet/clusters/local/")
    entry = AuditRecord.objects.get(action="cluster.move")
    assert (entry.actor, entry.reason, entry.detail) == (
        "root",
        "It burnt down.",
        {"from": "prague", "to": "brno"},
    )
    alive("prague")
    wish = {"host": "vienna", "reason": "It is back."}
    back = page.post("/fleet/clusters/local/+move/", wish, headers={"HX-Request": "true"})
    assert "No worker or sweeper of vienna" in back.content.decode()


def test_who_may_only_look_is_offered_no_move(local: Cluster) -> None:
    alive("prague", "brno")
    reader = client_of(person("rita", vision="viewer"))
    assert "Move to another host" not in reader.get("/fleet/clusters/local/").content.decode()
    wish = {"host": "brno", "reason": "Why not"}
    answer = reader.post("/fleet/clusters/local/+move/", wish, headers={"HX-Request": "true"})
    assert answer.status_code in (403, 422)
    local.refresh_from_db()
    assert local.host == "prague"
