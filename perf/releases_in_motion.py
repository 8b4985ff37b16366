"""What judging many releases costs, and how late it comes: `python -m perf.releases_in_motion`.

Real processes on a home of their own: sweeper and Celery worker as `bin/up` runs them, Valkey, Envoy with a
route of two sides per service, and a little traffic on all of them. First nothing is released, then 10, then
200 releases hold at 30 % and are judged, as often as their number allows. Own CPU is that of sweeper and
worker alone, less what they use when nothing is released. Required is that the most releases take 30 % of a
core at most, and that a look costs little more with many releases than with few, a ratio within the run.
Exits with 1 when one does not hold. How far looks are apart is told: a busy machine delays them.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from perf.envoy_stack import EnvoyStack, free_port
from perf.load import LoadClient
from perf.required import RequiredFigure, at_most, report
from perf.upstream import Upstream
from tests.patience import eventually
from tests.valkey import ValkeyServer

PROJECT = Path(__file__).resolve().parent.parent
SETTLE_SECONDS = 6.0
STARTED_SECONDS = 20.0
REQUESTS_PER_SECOND = 60
PERCENT = 30
STABLE, CANDIDATE = "perf-r0", "perf-r1"
PLAN: dict[str, Any] = {
    "name": "perf-hold",
    "steps": [
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 60},
        {"kind": "weight", "percent": PERCENT},
        {"kind": "hold", "seconds": 86_400},
        {"kind": "promote"},
    ],
}
HOLD = 2
OWN_CPU = 0.3
"""Of a core, for the most releases, beside what is used anyway."""
CPU_PER_LOOK = 1.5
"""Of the most releases beside the fewest, what is used anyway included: less of it falls on each."""


@dataclass(frozen=True, slots=True)
class InMotionFigures:
    releases: int
    seconds: float
    looks: int
    own_cpu: dict[str, float]
    """Seconds, by part."""
    gateway_cpu: float
    gaps: list[float]
    """Seconds from look to look."""


class KernelProcesses:
    """Sweeper and worker as `bin/up` starts them, and what they have used."""

    def __init__(self, home: Path) -> None:
        from controlplane.embedded.home import Home
        from controlplane.embedded.programs import programs
        from controlplane.env import env

        self.started: dict[str, subprocess.Popen[bytes]] = {}
        for program in programs(env, Home(home)).control:
            if program.name in ("worker", "sweeper"):
                with (home / "logs" / f"{program.name}.log").open("wb") as log:
                    self.started[program.name] = subprocess.Popen(
                        program.command,
                        cwd=PROJECT,
                        env=os.environ | program.environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )

    def cpu(self) -> dict[str, float]:
        return {name: cpu_of(process.pid) for name, process in self.started.items()}

    def stop(self) -> None:
        for process in self.started.values():
            process.terminate()
        for process in self.started.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def cpu_of(pid: int) -> float:
    """Seconds of the process and all that it started, those that have ended too."""
    total = 0.0
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def make_rows(count: int, stable: Upstream, candidate: Upstream) -> None:
    """Services with a release each, at rest, and all that such a release rests on."""
    from accounts.models import Team
    from clusters.models import Cluster, Deployment, Worker
    from common.actor import Actor
    from gateway.models import Route
    from gateway.services.gateways import ensure_gateway
    from models_registry.models import Model, Version
    from releases.models import Release, ReleaseStep, Service
    from releases.plans.plan import parse_plan, plan_hash

    now = datetime.now(UTC)
    team = Team.objects.get_or_create(name="perf")[0]
    model = Model.objects.create(team=team, name="perf")
    versions = [
        Version.objects.create(
            model=model,
            number=number,
            name=f"v{number}",
            state="ready",
            digest=str(number) * 64,
            ready_at=now,
            file_count=1,
        )
        for number in (1, 2)
    ]
    cluster = Cluster.objects.filter(kind="embedded").first()
    cluster = cluster or Cluster.objects.create(name="perf", kind="embedded")
    gateway = ensure_gateway(cluster, actor=Actor.system("perf"))
    plan = parse_plan(PLAN)
    for version, side, worker in ((versions[0], STABLE, stable), (versions[1], CANDIDATE, candidate)):
        deployment = Deployment.objects.create(
            name=side, cluster=cluster, team=team, service="perf", version=version,
            version_label=str(version), engine="echo", replicas=1, slots=4, state="ready", op_key=side,
            created_by="perf", observed_at=now,
        )  # fmt: skip
        Worker.objects.create(
            deployment=deployment, uid=f"{side}-0", name=f"{side}-0", address="127.0.0.1", port=worker.port,
            state="ready", state_since=now,
        )  # fmt: skip
    for index in range(count):
        name = f"s{index}"
        service = Service.objects.create(
            team=team, name=name, model=model, cluster=cluster, engine="echo", created_by="perf",
            stable_version=versions[0], stable_deployment=STABLE,
        )  # fmt: skip
        Route.objects.create(
            gateway=gateway,
            service=name, stable_target=STABLE, stable_version="perf:v1", candidate_target=CANDIDATE,
            candidate_version="perf:v2", candidate_percent=PERCENT, writer=1, writer_turn=1, changed_at=now,
            applied_at=now,
        )  # fmt: skip
        release = Release.objects.create(
            service=service, team=team, version=versions[1], from_version=versions[0], plan_name=plan.name,
            plan=plan.model_dump(mode="json"), plan_hash=plan_hash(plan), requester="perf",
            state="running", step_index=HOLD, stable_deployment=STABLE,
            candidate_deployment=CANDIDATE,
            candidate_percent=PERCENT,
        )  # fmt: skip
        ReleaseStep.objects.bulk_create(
            ReleaseStep(
                release=release, index=number, kind=step.kind, title=step.summary(),
                state="running" if number == HOLD else "done", started_at=now,
            )
            for number, step in enumerate(plan.steps)
        )  # fmt: skip


def lay_routes(stack: EnvoyStack, count: int, stable: Upstream, candidate: Upstream) -> None:
    """All at once, to the same two targets: one by one, each would be proved and waited for.

    Envoy ends when it has to watch the files of more targets than fs.inotify.max_user_instances allows.
    """
    from common.fence import Fence
    from gateway.backends.envoy.store import EnvoyFileStore
    from gateway.backends.state import GatewayState
    from gateway.errors import GatewayUnreachable
    from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint

    state, now = GatewayState(), datetime.now(UTC)
    old, new = RouteTarget(STABLE, "perf:v1"), RouteTarget(CANDIDATE, "perf:v2")
    for target, worker in ((old, stable), (new, candidate)):
        stack.gateway.set_target(target.name, [WorkerEndpoint("127.0.0.1", worker.port)], observed_at=now)
    for index in range(count):
        state = state.with_route(RouteSpec(f"s{index}", old, new, PERCENT), fence=Fence(1, 1), now=now)
    EnvoyFileStore(stack.layout).save(state)

    def taken() -> bool:
        with suppress(GatewayUnreachable):
            stack.gateway.refresh()
            return stack.gateway.health().ok
        return False

    eventually(taken, every=1)


def await_both() -> None:
    """Until both parts have imported all and have looked for what is due."""
    from gateway.models import Gateway

    eventually(lambda: Gateway.objects.filter(is_healthy=True).exists(), seconds=120, every=1)
    time.sleep(STARTED_SECONDS)


def set_in_motion(count: int) -> None:
    from releases.models import EvidencePoint, Release, ReleaseStep

    EvidencePoint.objects.all().delete()
    now = datetime.now(UTC)
    ReleaseStep.objects.filter(index=HOLD).update(started_at=now)
    for index, release in enumerate(Release.objects.order_by("pk")):
        due = now + timedelta(seconds=(index % 100) / 100) if index < count else None
        Release.objects.filter(pk=release.pk).update(next_at=due, evidence={}, baseline={}, progress={})


def measure(count: int, seconds: float, parts: KernelProcesses, stack: EnvoyStack) -> InMotionFigures:
    from releases.models import EvidencePoint

    set_in_motion(count)
    time.sleep(SETTLE_SECONDS)
    assert stack.process is not None
    began, cpu, gateway = datetime.now(UTC), parts.cpu(), cpu_of(stack.process.pid)
    time.sleep(seconds)
    used = {name: after - cpu[name] for name, after in parts.cpu().items()}
    gateway_used = cpu_of(stack.process.pid) - gateway
    took = (datetime.now(UTC) - began).total_seconds()
    gaps, looks = [], 0
    last: dict[int, datetime] = {}
    points = EvidencePoint.objects.filter(at__gte=began).order_by("at").values_list("release_id", "at")
    for release_id, at in points:
        looks += 1
        if release_id in last:
            gaps.append((at - last[release_id]).total_seconds())
        last[release_id] = at
    if count and len(last) < count:
        raise SystemExit(f"Only {len(last)} of {count} releases were looked at; see the logs.")
    return InMotionFigures(count, took, looks, used, gateway_used, gaps)


async def send_for_ever(port: int, services: int) -> None:
    client, index = LoadClient(port), 0
    while True:
        index += 1
        try:
            await client.get(f"/s{index % services}/v1/models")
        except (OSError, EOFError):
            client = LoadClient(port)
        await asyncio.sleep(1 / REQUESTS_PER_SECOND)


@contextmanager
def traffic(port: int, services: int) -> Iterator[None]:
    command = [sys.executable, "-m", "perf.releases_in_motion", "--send", str(port), str(services)]
    process = subprocess.Popen(command, cwd=PROJECT)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def rows_of(idle: InMotionFigures, stages: list[InMotionFigures]) -> list[RequiredFigure]:
    base = {name: used / idle.seconds for name, used in idle.own_cpu.items()}
    rows = [
        RequiredFigure(f"nothing released: {name}, own CPU", f"{100 * rate:.1f} % of a core")
        for name, rate in base.items()
    ]
    cpu, share = [], 0.0
    for stage in stages:
        own = {name: used - base[name] * stage.seconds for name, used in stage.own_cpu.items()}
        gateway = (stage.gateway_cpu - idle.gateway_cpu / idle.seconds * stage.seconds) / stage.looks
        gaps = sorted(stage.gaps)
        cpu.append(sum(stage.own_cpu.values()) / stage.looks)
        share = sum(own.values()) / stage.seconds
        parts = " + ".join(f"{name} {1000 * used / stage.looks:.2f}" for name, used in own.items())
        about = f"{stage.releases} releases"
        rows += [
            RequiredFigure(f"{about}: own CPU", f"{100 * share:.1f} % of a core"),
            RequiredFigure(
                f"{about}: own CPU per look", f"{1000 * sum(own.values()) / stage.looks:.2f} ms ({parts})"
            ),
            RequiredFigure(f"{about}: Envoy's CPU per look", f"{1000 * gateway:.2f} ms"),
            RequiredFigure(
                f"{about}: from look to look",
                f"p50 {statistics.median(gaps):.2f} s, p95 {gaps[int(0.95 * len(gaps))]:.2f} s, "
                f"max {gaps[-1]:.2f} s",
            ),
        ]
    few, many = stages[0].releases, stages[-1].releases
    return [
        *rows,
        at_most(f"{many} releases: own CPU, cores", share, OWN_CPU),
        at_most(
            f"own CPU per look, idle use included: {many} releases / {few}", cpu[-1] / cpu[0], CPU_PER_LOOK
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, nargs="+", default=[10, 200])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--send", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        asyncio.run(send_for_ever(*options.send))
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="slipway-perf-", ignore_cleanup_errors=True) as directory,
    ):
        home, most = Path(directory), max(options.releases)
        (home / "logs").mkdir()
        (home / "run").mkdir()
        valkey, envoy = ValkeyServer(), EnvoyStack(home)
        valkey.start()
        stack.callback(valkey.remove)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
            "SLIPWAY_HOME": str(home),
            "SLIPWAY_REDIS_URL": valkey.url,
            "SLIPWAY_PORT": str(free_port()),
            "SLIPWAY_GATEWAY_PORT": str(envoy.layout.port),
            "SLIPWAY_GATEWAY_ADMIN_PORT": str(envoy.layout.admin_port),
            "SLIPWAY_WORKER_PORTS": "33000-33099",
            "SLIPWAY_LOG_LEVEL": "WARNING",
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", interactive=False, verbosity=0)
        sides = Upstream("perf:v1"), Upstream("perf:v2")
        for upstream in sides:
            stack.callback(upstream.kill)
        envoy.start()
        stack.callback(envoy.stop)
        make_rows(most, *sides)
        lay_routes(envoy, most, *sides)
        stack.enter_context(traffic(envoy.layout.port, most))
        parts = KernelProcesses(home)
        stack.callback(parts.stop)
        await_both()
        idle = measure(0, options.seconds, parts, envoy)
        stages = [measure(count, options.seconds, parts, envoy) for count in sorted(options.releases)]
        rows = rows_of(idle, stages)
    sys.exit(report(rows))


if __name__ == "__main__":
    main()
