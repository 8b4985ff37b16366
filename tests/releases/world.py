"""A release with all that it touches, in memory: a gateway and its clients, a cluster, a prober, people."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from accounts import actors
from accounts.models import Membership, Team, User
from accounts.states import Role
from clusters.backends.base import ObservedState
from clusters.models import Cluster, Deployment, Worker
from clusters.reconcilers.deployment_steps import DeploymentTools
from clusters.reconcilers.deployments import DeploymentReconciler
from common.actor import Actor
from common.models import Intent
from common.reconcile import Kernel, Reconciler
from common.reconcile import kernel as process_kernel
from gateway.backends.fake import Behaviour
from gateway.models import Route
from models_registry.models import Version
from releases.messages import ReleaseMessage
from releases.models import Release, ReleaseMove, Service
from releases.reconcilers.release import ReleaseReconciler
from releases.services.approval import approve
from releases.services.plan import save_plan
from releases.services.release import start_release
from releases.services.service import create_service
from releases.smoke import SmokeTestProbe
from releases.states import ReleaseState
from tests.clusters.world import World, version_of
from tests.crash.harness import Checkpoints, Clock, worker
from tests.gateway.cast import fake_gateway, use_gateway
from tests.remembered import remembered

SECONDS = 0.5
"""Of one tick of the clock."""
REQUESTS = 20
"""That clients send in one tick."""

SWIFT: dict[str, Any] = {
    "steps": [
        {"kind": "scan"},
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 60},
        {"kind": "smoke_test", "requests": 3, "timeout_seconds": 30},
        {"kind": "weight", "percent": 30},
        {"kind": "hold", "seconds": 5},
        {"kind": "judge", "at_most_seconds": 5, "on_insufficient": "ask"},
        {"kind": "approval", "timeout_seconds": 600},
        {"kind": "promote"},
    ],
}


class Undo(Exception):
    """Rolls a story's rows back."""


@contextmanager
def undone() -> Iterator[None]:
    """Undo whatever is written inside."""
    try:
        with transaction.atomic():
            # As Django marks the transactions of its test cases: what is inside is as if it were outside.
            connection.atomic_blocks[-1]._from_testcase = True
            yield
            raise Undo
    except Undo:
        pass


class FakeProber:
    """Good answers, unless told what is wrong."""

    def __init__(self) -> None:
        self.fault = ""
        self.asked: list[str] = []

    def ask(
        self, *, worker: str, base_url: str, number: int, model: str, timeout_seconds: float
    ) -> SmokeTestProbe:
        self.asked.append(base_url)
        return SmokeTestProbe(
            worker,
            f"prompt {number}",
            12.0,
            "" if self.fault else "an answer",
            ReleaseMessage(words=self.fault),
        )


class Scene:
    """Version 1 serves; version 2 is ready to be released. Call `make` inside a test with a database."""

    def __init__(
        self,
        monkeypatch: Any,
        *,
        kernel: type[Kernel] = Kernel,
        then: Callable[["Scene"], object] = lambda scene: None,
    ) -> None:
        """`then` happens once in a process, like what comes before it: what it leaves is remembered."""
        self.kernel = kernel
        self.clock = Clock(timezone.now())
        self.world = World()
        self.prober = FakeProber()
        self._join(monkeypatch)
        self.__dict__ |= remembered(("releases", kernel, then), lambda: self._set(then))
        # What is remembered is a copy: the product gets hold of this one.
        use_gateway(self.gateway)
        self._join(monkeypatch)

    def _join(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(process_kernel, "clock", self.clock)
        monkeypatch.setattr("releases.smoke.prober", self.prober)

    def _set(self, then: Callable[["Scene"], object]) -> dict[str, Any]:
        """The cast, and a service that has traffic."""
        self.team = Team.objects.get_or_create(name="speech")[0]
        self.requester = self._person("ada", Role.DEVELOPER)
        self.approver = self._person("bo", Role.APPROVER)
        self.gateway = fake_gateway()
        self.cluster = Cluster.objects.get(name="local")
        self.v1, self.v2 = version_of(self.team, "story:v1"), version_of(self.team, "story:v2")
        self.name = f"chat{Service.objects.count()}"
        self.service = self._service()
        then(self)
        return vars(self)

    def _person(self, name: str, role: Role) -> Actor:
        user = User.objects.get_or_create(username=name)[0]
        Membership.objects.get_or_create(user=user, team=self.team, defaults={"role": role})
        return actors.of_user(user)

    def _service(self) -> Service:
        save_plan(actor=Actor.system("test"), team=self.team, name="swift", body=SWIFT)
        service = create_service(
            actor=Actor.system("test"),
            team=self.team,
            name=self.name,
            model=self.v1.model,
            version=self.v1,
            cluster=self.cluster,
            engine="echo",
            replicas=2,
            plan_name="swift",
        )
        self.run_until(lambda: Service.objects.get(pk=service.pk).stable_version_id is not None)
        service.refresh_from_db()
        self.send(400)
        return service

    def reconcilers(self) -> list[Reconciler[Any]]:
        tools = DeploymentTools(
            backend_of=lambda _cluster: self.world,
            heartbeats=lambda _names: None,
        )
        return [ReleaseReconciler(), DeploymentReconciler(tools)]

    def worker(self, checkpoints: Checkpoints | None = None) -> Kernel:
        return worker(self.reconcilers(), self.clock, checkpoints, self.kernel)

    def send(self, requests: int = REQUESTS) -> dict[str, int]:
        """Send what clients send, as far as the service has a route; return counts by target."""
        if not Route.objects.filter(service=self.name, removed_at=None).exists():
            return {}
        return dict(self.gateway.send(self.name, requests))

    def start(self, version: Version | None = None, **how: Any) -> Release:
        """Start a release. A plan that is named is followed as if it were the service's own."""
        if "plan_name" in how:
            self.follow(how["plan_name"])
        self.release = start_release(
            actor=self.requester, service=self.service, version=version or self.v2, reason="better", **how
        )
        return self.release

    def follow(self, plan_name: str) -> None:
        """Make it the service's plan: less is demanded of no release."""
        Service.objects.filter(pk=self.service.pk).update(plan_name=plan_name)

    def tick(self, kernel: Kernel) -> None:
        kernel.sweep()
        self.send()
        self.clock.pass_(timedelta(seconds=SECONDS))

    def run_until(self, holds: Callable[[], bool], *, seconds: float = 400) -> None:
        kernel = self.worker()
        for _ in range(int(seconds / SECONDS)):
            if holds():
                return
            self.tick(kernel)
        raise AssertionError("It never came to be.")

    def run_until_state(self, *states: ReleaseState, seconds: float = 400) -> Release:
        self.run_until(lambda: self.state() in states, seconds=seconds)
        return self.release

    def run_for(self, seconds: float) -> None:
        kernel = self.worker()
        for _ in range(int(seconds / SECONDS)):
            self.tick(kernel)

    def state(self) -> ReleaseState:
        self.release.refresh_from_db()
        return ReleaseState(self.release.state)

    def approve(self) -> None:
        approve(self.release, actor=self.approver, reason="fine")

    @property
    def candidate(self) -> str:
        return self.release.candidate_deployment

    @property
    def stable(self) -> str:
        return self.release.stable_deployment

    def misbehave(self, **how: Any) -> None:
        self.gateway.behave(self.candidate, Behaviour(**how))

    def break_candidate(self, reason: str = "RuntimeError: out of memory") -> None:
        for seen in self.world.observe(self.candidate):
            self.world.turn(seen.name, ObservedState.FAILED, reason=reason)

    def running(self, deployment: str) -> int:
        return len(self.world.observe(deployment))

    def split(self, requests: int = 500) -> dict[str, int]:
        return self.send(requests)

    def moves(self) -> list[str]:
        return list(ReleaseMove.objects.filter(release=self.release).values_list("after", flat=True))

    def clear(self) -> None:
        for model in (Release, Service, Worker, Deployment, Route, Intent):
            model._default_manager.all().delete()
