"""A machine that is drilled: its jobs play what they are told, and its agent tells what is played."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from common.actor import Actor
from common.jobs.spec import JobSpec
from gpu_health.models import Drill
from gpu_health.reconcilers.drills import DrillReconciler
from gpu_health.services.drills import mark_cluster, order_drill
from gpu_health.services.readings import accept_readings
from gpu_health.signals.kernel_log import KernelLogParser
from gpu_health.signals.nvml import NvmlReader
from gpu_health.signals.reading import details
from serving.drills.machine import KMSG, carry_out, read_play
from serving.drills.nvml import played_module
from tests.gpu_health.healing import DONE, Ward

SYSTEM = Actor.system("test")


class DrillWard(Ward):
    """`directory`: where the machine's agent is told to look for what is played."""

    def __init__(self, directory: Path, *, has_agent: bool = True, **given: Any) -> None:
        super().__init__(**given)
        self.directory = directory
        self.has_agent = has_agent
        self.operations.job_runner.program = self.plays
        self.orders: list[dict[str, Any]] = []
        self._followed = 0
        self._read = 0
        mark_cluster(actor=SYSTEM, cluster=self.cluster, is_test=True)
        self.kernel.register(DrillReconciler(lambda _cluster: self.world))

    def plays(self, spec: JobSpec) -> dict[str, Any] | None:
        if "serving.drills" not in spec.argv:
            return DONE
        order = json.loads(spec.argv[-1])
        self.orders.append(order)
        return carry_out(self.directory, order)

    def drill(self, name: str, **given: Any) -> Drill:
        return order_drill(actor=SYSTEM, node=self.node, name=name, **given)

    def agent_tells(self) -> None:
        """Send what `serving.drills.agent` would send by now."""
        play = read_play(self.directory)
        if play is None or not self.has_agent:
            return
        if play.drill != self._followed:
            self._followed, self._read = play.drill, 0
            library = played_module(lambda: read_play(self.directory))
            self._nvml = NvmlReader(library, session=f"drill-{play.drill}", expected_gpus=play.gpus)
            self._kernel = KernelLogParser(
                booted_at=time.time() - time.clock_gettime(time.CLOCK_MONOTONIC), boot=self.node.boot_id
            )
        lines = (self.directory / KMSG).read_bytes()
        found = self._kernel.feed(lines[self._read :]) + self._nvml.read(self.clock.at.timestamp())
        self._read = len(lines)
        marks = [
            {**one.to_dict(), "details": dict(details({**dict(one.details), "drill": str(play.drill)}))}
            for one in found
        ]
        accept_readings(cluster_id=self.cluster.pk, node_uid=self.node.uid, entries=marks)
        self._due()

    def play(self, drill: Drill, *, until: str = "", ticks: int = 400) -> Drill:
        """Let time pass until the drill is over, or in that state."""
        for _ in range(ticks):
            drill.refresh_from_db()
            if not drill.is_open or drill.state == until:
                return drill
            self.step()
        raise AssertionError(f"It stays {drill.state}: {drill.why} {drill.last_error}")

    def step(self) -> None:
        self.kernel.sweep()
        self.follow()
        self.agent_tells()
        self.clock.pass_(timedelta(seconds=1))
