"""A pool with real rows and heartbeats, and workers of a cluster in memory."""

import time
from collections.abc import Mapping
from datetime import timedelta

import orjson
import redis
from django.conf import settings as django_settings
from django.utils import timezone

from capacity import services
from capacity.models import CapacityPlan, Pool
from capacity.reconcilers import CapacityPlanReconciler, PoolReconciler
from clusters.models import Deployment
from common.live import shared
from gateway.models import Gateway, Route
from tests.cast import SYSTEM
from tests.clusters.world import Scene
from tests.crash.harness import worker


class Shared:
    """Two services of one cluster that share six workers: three each at the start."""

    queued: Mapping[str, int] = {}
    """Requests that wait at each worker of a service."""
    answered = 9
    """By each worker since its process began."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.gateway = Gateway.objects.create(cluster=self.scene.cluster)
        for name in ("chat", "code"):
            row = self.scene.deployment(f"{name}-v1", service=name, replicas=3)
            Route.objects.create(
                gateway=self.gateway,
                service=name,
                stable_target=row.name,
                stable_version="story:v1",
                writer=0,
                writer_turn=0,
                changed_at=timezone.now(),
            )
        self.scene.pass_(3)
        self.pool = services.create_pool(
            actor=SYSTEM, team=self.scene.team, name="shared", cluster=self.scene.cluster, workers=6
        )
        for name in ("chat", "code"):
            services.set_membership(self.pool, actor=SYSTEM, service=name, guarantee=1, limit=6)
        Pool.objects.update(dwell_seconds=0)
        self.load = {"chat": 1.5, "code": 1.5}
        """Of each service, in workers."""

    def beat(self) -> None:
        with redis.Redis.from_url(django_settings.REDIS_URL) as client:
            for row in Deployment.objects.all():
                ready = row.workers.filter(state="ready")
                busy = min(1.0, self.load[row.service] / max(1, len(ready)))
                for one in ready:
                    record = {
                        "worker": one.name, "started_at": 1.0,
                        "pid": one.pid, "state": "ready", "reason": "", "busy": busy,
                        "in_flight": 1, "slots": 4, "queue_depth": self.queued.get(row.service, 0),
                        "counters": {"requests": self.answered},
                        "full_since": None, "ttft": None, "load_seconds": 1.5,
                    }  # fmt: skip
                    entry = orjson.dumps({"at": time.time(), "record": record})
                    client.hset(shared._hash("heartbeats"), one.uid, entry)

    def pass_(self, seconds: float, *, by: float = 2.0) -> None:
        """Kernels of capacity and of clusters sweep while time passes."""
        kernel = worker(
            [PoolReconciler(), CapacityPlanReconciler(), *self.scene.reconcilers()], self.scene.clock
        )
        for _ in range(int(seconds / by)):
            self.beat()
            kernel.sweep()
            self.scene.clock.pass_(timedelta(seconds=by))
        kernel.sweep()

    def workers(self) -> dict[str, int]:
        return dict(Deployment.objects.values_list("service", "replicas"))

    def plan(self) -> CapacityPlan:
        return CapacityPlan.objects.latest("pk")
