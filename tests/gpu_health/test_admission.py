"""However many workers ask at once: no pool has more machines in repair than it has slots."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections
from django.utils import timezone

from accounts.actors import of_user
from clusters.models import Cluster, Node
from gpu_health.healing.guards import Gate
from gpu_health.models import Finding, HealingPolicy, HealingPool, HealingSlot, Incident
from gpu_health.services.admission import admit, release
from gpu_health.services.healing import close_breaker
from gpu_health.services.incidents import consider
from tests import cast

FREELY = {"wait_seconds": {"fatal": 0}, "seconds_between_drains": 0, "unhealthy_percent": 100}


def ill(count: int, **limits: float) -> list[Incident]:
    cluster = Cluster.objects.create(name="gpus", kind="embedded", team=cast.team("serving"))
    HealingPolicy.objects.create(pk=1, mode="act", limits={**FREELY, **limits})
    now = timezone.now()
    for number in range(count):
        node = Node.objects.create(cluster=cluster, uid=f"n{number}", name=f"n{number}", seen_at=now)
        Finding.objects.create(
            node=node,
            fault="xid.119",
            severity="fatal",
            outcome="act",
            ladder=["reset_gpu"],
            drain="gpu",
            verification="none",
            first_at=now,
            last_at=now,
        )
        consider(node)
    return list(Incident.objects.select_related("node__cluster").order_by("pk"))


@pytest.mark.django_db
def test_the_breaker_opens_and_a_person_replays_or_discards_the_backlog() -> None:
    incidents = ill(6)
    gates, now = frozenset({Gate.QUARANTINE}), timezone.now()

    answers = [admit(one, gates, now) for one in incidents]

    assert [one is None for one in answers] == [True, True, False, False, False, False]
    pool = HealingPool.objects.get()
    assert "3 of 6 machines" in pool.breaker_reason
    root = cast.person("root", superuser=True)
    close_breaker(actor=of_user(root), pool=pool, replays=False, reason="a driver roll-out")
    assert Incident.objects.filter(cancel="leave").count() == 6
    assert admit(incidents[2], gates, timezone.now()) is None


@pytest.mark.django_db
def test_a_slot_is_free_again_when_its_incident_lets_go_of_it() -> None:
    first, second, *_rest = ill(3)
    gates, now = frozenset({Gate.REPAIR}), timezone.now()

    assert admit(first, gates, now) is None
    refused = admit(second, gates, now)
    assert refused is not None
    assert refused.words == "1 of 1 slots of gpus/default are taken."
    assert admit(first, gates, now) is None
    release(first)
    assert admit(second, gates, now) is None


@pytest.mark.django_db(transaction=True)
def test_eight_workers_never_take_more_slots_than_there_are() -> None:
    incidents = ill(24, slots_percent=12.5, repairs_per_hour=100)
    barrier = Barrier(8)

    def work(number: int) -> int:
        barrier.wait(30)
        try:
            mine = incidents[number::8]
            return sum(admit(one, frozenset({Gate.REPAIR}), timezone.now()) is None for one in mine)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as workers:
        passed = sum(workers.map(work, range(8)))

    assert passed == HealingSlot.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_eight_workers_never_quarantine_more_machines_than_the_pool_has_room_for() -> None:
    incidents = ill(24, unhealthy_percent=20, breaker_percent=100)
    barrier = Barrier(8)

    def work(number: int) -> int:
        barrier.wait(30)
        try:
            mine = incidents[number::8]
            return sum(admit(one, frozenset({Gate.QUARANTINE}), timezone.now()) is None for one in mine)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as workers:
        passed = sum(workers.map(work, range(8)))

    assert passed == 4
