"""A rack or NVLink domain of which half is bad is treated as one: a person is asked once."""

from typing import Any

import pytest
from django.utils import timezone

from accounts.actors import of_user
from accounts.models import User
from accounts.states import Role
from clusters.models import Cluster, Node
from gpu_health.errors import NothingToApprove
from gpu_health.models import Incident
from gpu_health.services.incidents import approve_domain, cordon_domain
from tests import cast

pytestmark = pytest.mark.django_db


def machine(cluster: Cluster, name: str, *, rack: str = "r1", **columns: Any) -> Node:
    labels = {"nvidia.com/gpu.clique": rack}
    return Node.objects.create(
        cluster=cluster, uid=name, name=name, labels=labels, seen_at=timezone.now(), **columns
    )


def incident(node: Node, **columns: Any) -> Incident:
    now = timezone.now()
    given = {"state": "proposed", "hold": "domain", "asked_at": now, "first_at": now} | columns
    plain = {"fault": "xid.79", "severity": "fatal", "ladder": ["reboot"], "drain": "node"}
    return Incident.objects.create(node=node, pool="gpus/default", verification="none", **plain, **given)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return Cluster.objects.create(name="gpus", kind="kubernetes", team=cast.team("serving"))


@pytest.fixture
def operator(cluster: Cluster) -> User:
    return cast.person("olga", serving=Role.OPERATOR)


def test_one_approval_lets_all_machines_of_the_domain_go_on_and_no_others(
    cluster: Cluster, operator: User
) -> None:
    first, second = (incident(machine(cluster, name)) for name in ("a", "b"))
    waits_for_itself = incident(machine(cluster, "c"), hold="proposal")
    elsewhere = incident(machine(cluster, "d", rack="r2"))
    approved = approve_domain(actor=of_user(operator), incident=first, reason="the tray was reseated")
    assert [one.pk for one in approved] == [first.pk, second.pk]
    for one, is_approved in ((first, True), (second, True), (waits_for_itself, False), (elsewhere, False)):
        one.refresh_from_db()
        assert one.is_approved is is_approved
    with pytest.raises(NothingToApprove):
        approve_domain(actor=of_user(operator), incident=first, reason="again")


def test_the_rest_of_the_domain_is_cordoned_by_a_person_and_told_on_the_timeline(
    cluster: Cluster, operator: User
) -> None:
    bad = incident(machine(cluster, "a", is_cordoned=True))
    healthy = machine(cluster, "b")
    other = machine(cluster, "c", rack="r2")
    cordon_domain(actor=of_user(operator), incident=bad, reason="its switch is replaced")
    healthy.refresh_from_db()
    other.refresh_from_db()
    assert (healthy.operation, other.operation) == ("cordon", "")
    assert bad.timeline.get().words == "Cordoned: b. its switch is replaced"


def test_the_page_shows_the_domain_and_asks_once(cluster: Cluster, operator: User) -> None:
    first, second = (incident(machine(cluster, name)) for name in ("a", "b"))
    client = cast.client_of(operator)
    told = client.get(f"/gpu-health/incidents/{first.pk}/").content.decode()
    assert "Domain r1" in told
    assert "Approve all" in told
    client.post(f"/gpu-health/incidents/{first.pk}/+approve-domain/", {"reason": "reseated"})
    second.refresh_from_db()
    assert second.is_approved
    assert (
        cast.api(operator)
        .post(f"gpu-health/incidents/{first.pk}/cordon-domain/", {"reason": "look at it"})
        .status_code
        == 200
    )
