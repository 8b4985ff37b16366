"""The look that writes rows of machines, and one page of them, over a database of their own."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from perf.kubernetes.documents import LargeListServer


def _cpu(work: Callable[[], Any], rounds: int = 3) -> float:
    """The least of some rounds, in seconds."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def measured(machines: int) -> dict[str, float]:
    """Own CPU seconds, counts of queries, bytes. Django is set up."""
    from django.conf import settings
    from django.db import connection, transaction
    from django.test import Client
    from django.test.utils import CaptureQueriesContext
    from django.utils import timezone

    from accounts.models import User
    from clusters.backends.kubernetes.nodes import node_of
    from clusters.backends.node_observations import packed, sighting_of, sightings_of
    from clusters.models import Cluster
    from clusters.reconcilers.inventory import ObservedCluster, record_machines
    from kube.client import KubeClient
    from kube.resources import NODES

    cluster = Cluster.objects.create(name=f"perf-{machines}", kind="kubernetes")
    seen = KubeClient(LargeListServer(machines)).gather(NODES, keep=node_of).items
    values = {one.uid: packed(one) for one in seen}

    def look(values: dict[str, bytes]) -> None:
        found = tuple(sighting_of(uid, value) for uid, value in values.items())
        with transaction.atomic():
            record_machines(cluster, ObservedCluster("", found), timezone.now())

    result = {"first": _cpu(lambda: look(values), 1)}
    with CaptureQueriesContext(connection) as queries:
        look(values)
    result |= {"queries": len(queries), "same": _cpu(lambda: look(values))}
    listed = KubeClient(LargeListServer(machines))

    def look_by_list() -> None:
        found = listed.gather(NODES, keep=node_of).items
        with transaction.atomic():
            record_machines(cluster, ObservedCluster("", sightings_of(found)), timezone.now())

    result["by list"] = _cpu(look_by_list, 1)
    changed = dict(values)
    for one in seen[: machines // 100]:
        changed[one.uid] = packed(replace(one, boot_id="another"))  # type: ignore[arg-type]
    result["hundredth"] = _cpu(lambda: look(changed), 1)
    settings.ALLOWED_HOSTS = ["*"]
    client = Client()
    client.force_login(
        User.objects.create_user(username=f"perf-{machines}", is_superuser=True, is_staff=True)
    )
    for name, path in (("page", "/fleet/"), ("rest", f"/api/v1/clusters/{cluster.name}/nodes/?limit=50")):
        answer = client.get(path)
        if answer.status_code != 200:
            raise SystemExit(f"{path} answers {answer.status_code}")
        with CaptureQueriesContext(connection) as queries:
            client.get(path)
        result |= {f"{name} queries": len(queries), f"{name} bytes": len(answer.content)}
        result[name] = _cpu(lambda path=path: client.get(path))  # type: ignore[misc]
    cluster.delete()
    return result
