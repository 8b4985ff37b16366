"""A machine of a fake cluster that falls ill and is healed, with a clock that tests move."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from accounts.models import Team
from clusters.backends.fake import NODE, FakeClusterBackend
from clusters.models import Cluster, Node
from clusters.reconcilers.drains import DrainReconciler
from common.jobs.spec import JobSpec
from common.reconcile import Kernel
from gpu_health.models import Finding, HealingPolicy, Incident
from gpu_health.policy.rule import RemediationAction
from gpu_health.reconcilers.incidents import IncidentReconciler
from gpu_health.services.incidents import consider
from tests import cast
from tests.crash.harness import Checkpoints, Clock, worker

CHECKED = ("matrix_products", "memory_patterns", "dcgm_diagnostic")
GPUS = [{"uuid": "GPU-fake", "bus_id": "0000:9b:00"}]


def checked(*gpus: dict[str, str], names: Sequence[str] = CHECKED, **outcomes: str) -> dict[str, Any]:
    """The report of a check of these GPUs; `outcomes`: of checks that did not pass, by name."""
    checks = [
        {
            "name": name,
            "outcome": outcomes.get(name, "passed"),
            "words": f"{name} said so.",
            "gpu_uuid": gpu["uuid"],
            "gpu_bus_id": gpu["bus_id"],
        }
        for gpu in gpus
        for name in names
    ]
    is_well = "failed" not in outcomes.values()
    return {"level": 2, "passed": is_well, "devices": [], "gpus": list(gpus), "checks": checks}


PASSED = checked(*GPUS)
FAILED = {
    "level": 2,
    "passed": False,
    "gpus": GPUS,
    "checks": [{"name": "matrix_products", "outcome": "failed", "words": "GPU 0 computes wrong values."}],
}
DONE = {"done": True, "words": "All commands were run.", "commands": []}
LIMITS = {"wait_seconds": {"critical": 0}, "cooldown_seconds": 0, "watch_seconds": 60, "quiet_seconds": 5}
ACTS = {"mode": "act", "limits": LIMITS}


class Programs:
    """Results of the jobs on the machine; each list is worked off, and its last entry stays."""

    def __init__(self, are_operands_paused: Callable[[], bool]) -> None:
        self.checks: list[dict[str, Any] | None] = [PASSED]
        self.repairs: list[dict[str, Any] | None] = [DONE]
        self.ran: list[str] = []
        self.were_operands_paused: list[bool] = []
        """At each repair."""
        self._are_operands_paused = are_operands_paused

    def __call__(self, spec: JobSpec) -> dict[str, Any] | None:
        is_check = "serving.checks" in spec.argv
        self.ran.append("check" if is_check else "evidence" if "dmesg" in spec.argv[-1] else spec.argv[-1])
        if self.ran[-1] == "evidence":
            return DONE
        if not is_check:
            self.were_operands_paused.append(self._are_operands_paused())
        words = self.checks if is_check else self.repairs
        return words.pop(0) if len(words) > 1 else words[0]

    @property
    def repaired(self) -> list[str]:
        return [one for one in self.ran if one not in ("check", "evidence")]


class Ward:
    """A machine, its cluster and a worker that heals it."""

    def __init__(self, *, team: Team | None = None, **policy: Any) -> None:
        self.clock = Clock(timezone.now())
        self.world = FakeClusterBackend()
        self.programs = Programs(lambda: self.operations.has_operands_paused)
        self.operations.job_runner.program = self.programs
        self.cluster = Cluster.objects.create(name="gpus", kind="embedded", team=team or cast.team("serving"))
        self.node = Node.objects.create(
            cluster=self.cluster,
            uid=NODE.uid,
            name=NODE.name,
            boot_id=NODE.boot_id,
            seen_at=self.clock.at,
        )
        HealingPolicy.objects.update_or_create(pk=HealingPolicy.ONLY, defaults={**ACTS, **policy})
        self.kernel = self.worker()

    @property
    def operations(self) -> Any:
        return self.world.node_operations

    def worker(self, checkpoints: Checkpoints | None = None, kernel: type[Kernel] = Kernel) -> Kernel:
        def backend_of(_cluster: Cluster) -> FakeClusterBackend:
            return self.world

        kinds: list[Any] = [IncidentReconciler(backend_of), DrainReconciler(backend_of)]
        return worker(kinds, self.clock, checkpoints, kernel)

    def finding(
        self,
        fault: str = "xid.119",
        *,
        ladder: list[str] | None = None,
        at: datetime | None = None,
        **more: Any,
    ) -> Finding:
        """A fault is judged; the incident hears of it."""
        at = at or self.clock.at
        given: dict[str, Any] = {
            "device": "0000:9b:00",
            "gpu_uuid": "GPU-fake",
            "severity": "fatal",
            "outcome": "act",
            "ladder": ladder or [str(RemediationAction.RESET_GPU), str(RemediationAction.CONTACT_SUPPORT)],
            "drain": "gpu",
            "verification": "check_job",
            "boot_id": self.node.boot_id,
            "first_at": at,
            "last_at": at,
            "raw": "NVRM: Xid (PCI:0000:9b:00): 119",
        } | more
        row, _is_new = Finding.objects.update_or_create(
            node=self.node, fault=fault, device=given.pop("device"), state="open", defaults=given
        )
        consider(self.node)
        self._due()
        return row

    @property
    def incident(self) -> Incident:
        return Incident.objects.select_related("node__cluster").latest("pk")

    def run(self, until: str | Callable[[], bool], *, ticks: int = 300, seconds: float = 0.5) -> Incident:
        """Let time pass until the incident is in that state."""
        for _ in range(ticks):
            if until() if callable(until) else self.incident.state == until:
                return self.incident
            self.kernel.sweep()
            self.follow()
            next_at = self.incident.next_at
            self.clock.at = max(next_at or self.clock.at, self.clock.at + timedelta(seconds=seconds))
        one = self.incident
        raise AssertionError(f"It stays {one.state}: {one.hold_reason or one.reason} {one.last_error}")

    def follow(self) -> None:
        """The survey: the machine's row says what its cluster sees."""
        (seen,) = self.world.nodes()
        cordon = seen.cordon  # type: ignore[union-attr]
        Node.objects.filter(pk=self.node.pk).update(
            boot_id=seen.boot_id,  # type: ignore[union-attr]
            is_cordoned=cordon is not None,
            cordoned_by=cordon.by if cordon else "",
        )

    def states(self) -> list[str]:
        found: list[str] = []
        for entry in self.incident.timeline.order_by("pk"):
            if not found or found[-1] != entry.state:
                found.append(entry.state)
        return found

    def _due(self) -> None:
        """Wishes carry the time of the real clock."""
        Incident.objects.filter(next_at__isnull=False, next_at__gt=self.clock.at).update(
            next_at=self.clock.at
        )
