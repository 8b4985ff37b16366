"""Whether releases end while processes are killed and messages are lost: `python -m perf.under_fire`.

Real processes on a home of their own: PostgreSQL, Valkey, a Celery worker with two processes and the sweeper.
Every two seconds one of them is killed: mostly a process of the worker's pool, else the whole worker or the
sweeper, which is started again; none while the worker starts. Of the messages to the worker 30 % are lost and
30 % come twice. The gateway and the cluster are the fakes, in this process, behind their interfaces. Each
service is created, which is its first release, and then released again; a person approves most of these,
rejects or aborts the others.

Required: every release ends, or is stuck with an alert that fires; nothing is promoted without its approval
or twice; traffic goes to what the service says, no other worker runs, and the audit record is whole. Exits
with 1 when one does not hold.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from perf.required import RequiredFigure, at_least, report
from perf.under_fire.outside import PORT, OutsideWorld
from tests.postgres import PostgresServer
from tests.valkey import ValkeyServer

if TYPE_CHECKING:
    from accounts.models import Team
    from common.actor import Actor
    from releases.models import Release, Service

PROJECT = Path(__file__).resolve().parents[2]
KILL_EVERY_SECONDS = 2.0
REQUESTS = 20
OF_POOL = 0.97
APPROVED, REJECTED = 0.8, 0.9
"""Bounds of a random number: below the first approved, below the second rejected, else aborted."""
PLAN: dict[str, Any] = {
    "steps": [
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 600},
        {"kind": "weight", "percent": 30},
        {"kind": "hold", "seconds": 2},
        {"kind": "approval", "timeout_seconds": 3_600},
        {"kind": "promote"},
    ]
}
OVER = {"promoted", "rolled_back", "rejected", "aborted", "failed"}
PARTS = {"worker": ("--processes", "2"), "sweeper": ()}


class KilledProcesses:
    """The Celery worker and the sweeper: killed now and then, started again when they have ended."""

    def __init__(self, home: Path, rng: random.Random) -> None:
        self._home, self._rng = home, rng
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._next_kill = time.monotonic() + KILL_EVERY_SECONDS
        self.kills: Counter[str] = Counter()

    def keep_running(self) -> None:
        for name, options in PARTS.items():
            held = self._running.get(name)
            if held is None or held.poll() is not None:
                with (self._home / "logs" / f"{name}.log").open("ab") as log:
                    self._running[name] = subprocess.Popen(
                        [sys.executable, "-m", "controlplane.server", name, *options],
                        cwd=PROJECT, stdout=log, stderr=log, start_new_session=True,
                    )  # fmt: skip

    def kill_when_due(self) -> None:
        if time.monotonic() < self._next_kill:
            return
        self._next_kill = time.monotonic() + KILL_EVERY_SECONDS
        pool = self.pool()
        if not pool:  # The worker is starting.
            return
        if self._rng.random() < OF_POOL:
            what, victims = "pool process", [self._rng.choice(pool)]
        else:
            what = self._rng.choice(sorted(self._running))
            root = psutil.Process(self._running[what].pid)
            victims = [*root.children(recursive=True), root]
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
        self.kills[what] += 1

    def pool(self) -> list[psutil.Process]:
        """Return the processes of the worker's pool: grandchildren of its watchdog."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._running["worker"].pid).children()
            return [one for child in children for one in child.children()]
        return []

    def stop(self) -> None:
        for process in self._running.values():
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(process.pid)
                for one in [*root.children(recursive=True), root]:
                    one.kill()
            process.wait()


class FireRun:
    def __init__(self, releases: int, at_once: int, world: OutsideWorld, rng: random.Random) -> None:
        from releases.services.plan import save_plan
        from tests.clusters.world import version_of
        from tests.gateway.cast import cluster

        self.wanted, self.at_once, self.world, self.rng = releases, at_once, world, rng
        self.team, self.developer, self.approver = people()
        self.versions = [version_of(self.team, f"story:v{number}") for number in (1, 2)]
        self.cluster = cluster("local")
        save_plan(actor=system(), team=self.team, name="brief", body=PLAN)
        self.services: dict[str, Service] = {}
        self.decided: Counter[str] = Counter()
        self.approved: set[int] = set()

    def create(self) -> None:
        """Create a service, which begins its first release."""
        from releases.services.service import create_service

        name = f"s{len(self.services)}"
        self.services[name] = create_service(
            actor=self.developer, team=self.team, name=name, model=self.versions[0].model,
            version=self.versions[0], cluster=self.cluster, engine="echo", replicas=2, plan_name="brief",
        )  # fmt: skip

    def go_on(self) -> tuple[int, int]:
        """Do what clients and people do; return how many releases have ended, and how many are stuck."""
        from releases.models import Release
        from releases.services.release import start_release

        rows = list(Release.objects.select_related("service"))
        over = [one for one in rows if one.state in OVER]
        stuck = [one for one in rows if one.stuck_at is not None]
        moving = len(rows) - len(over) - len(stuck)
        for one in rows:
            if one.state == "waiting_approval":
                self._decide(one)
            elif one.candidate_percent and one.state == "running":
                with suppress(Exception), self.world.lock:
                    self.world.gateway.send(one.service.name, REQUESTS)
        of_service = Counter(one.service_id for one in rows)
        for one in over:
            if moving < self.at_once and of_service[one.service_id] == 1:
                start_release(
                    actor=self.developer, service=one.service, version=self.versions[1], reason="better"
                )
                moving += 1
        while moving < self.at_once and len(self.services) < self.wanted // 2:
            self.create()
            moving += 1
        return len(over), len(stuck)

    def _decide(self, release: "Release") -> None:
        from common.errors import SlipwayError
        from releases.services.approval import approve, reject
        from releases.services.release import abort

        fate = self.rng.random()
        with suppress(SlipwayError):
            if fate < APPROVED:
                approve(release, actor=self.approver, reason="fine")
                self.approved.add(release.pk)
                self.decided["approved"] += 1
            elif fate < REJECTED:
                reject(release, actor=self.approver, reason="worse")
                self.decided["rejected"] += 1
            else:
                abort(release, actor=self.developer, reason="no")
                self.decided["aborted"] += 1

    def faults(self) -> list[str]:
        """Find what is not as it must be, now that all have ended."""
        from common import audit
        from releases.models import Release, ReleaseMove, Service

        found = []
        for service in Service.objects.all():
            with self.world.lock:
                route = self.world.gateway.desired_route(service.name)
                running = {
                    name.rpartition("-")[0]: len(self.world.cluster.observe(name.rpartition("-")[0]))
                    for name in self.world.cluster._workers
                    if name.startswith(f"{service.name}-")
                }
            stable = service.stable_deployment
            if (route.stable.name if route else "") != stable or (route and route.candidate):
                found.append(f"{service.name}: route {route}, not all to {stable or 'nothing'}")
            if running != ({stable: 2} if stable else {}):
                found.append(f"{service.name}: {running} run, not two of {stable or 'nothing'}")
        promotions = Counter(
            ReleaseMove.objects.filter(after="promoted").values_list("release_id", flat=True)
        )
        for release in Release.objects.filter(state="promoted"):
            if release.from_version_id is not None and release.pk not in self.approved:
                found.append(f"release {release.pk} was promoted without an approval")
            if promotions[release.pk] != 1:
                found.append(f"release {release.pk} was promoted {promotions[release.pk]} times")
        if not audit.verify().intact:
            found.append("the audit record is not whole")
        return found


def system() -> "Actor":
    from common.actor import Actor

    return Actor.system("perf")


def people() -> "tuple[Team, Actor, Actor]":
    from accounts import actors
    from accounts.models import Membership, Team, User
    from accounts.states import Role

    team = Team.objects.create(name="perf")

    def person(name: str, role: Role) -> "Actor":
        user = User.objects.create(username=name)
        Membership.objects.create(user=user, team=team, role=role)
        return actors.of_user(user)

    return team, person("ada", Role.DEVELOPER), person("bo", Role.APPROVER)


def has_alert() -> bool:
    from alerts.models import RaisedAlert

    return RaisedAlert.objects.filter(check_name="SlipwayRowsStuck", state="firing").exists()


def until(holds: Any, seconds: float, meanwhile: Any = lambda: None) -> float:
    """Wait until it holds, or so long; return the seconds that it took."""
    began = time.monotonic()
    while not holds() and time.monotonic() < began + seconds:
        meanwhile()
        time.sleep(0.2)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--limit", type=float, default=3_600, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="slipway-perf-", ignore_cleanup_errors=True) as directory,
    ):
        home, rng = Path(directory), random.Random(options.seed)
        for name in ("logs", "run"):
            (home / name).mkdir()
        valkey, postgres = ValkeyServer(), PostgresServer(migrated=True)
        stack.callback(postgres.stop)
        valkey.start()
        stack.callback(valkey.remove)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "perf.under_fire.settings",
            "SLIPWAY_HOME": str(home),
            "SLIPWAY_REDIS_URL": valkey.url,
            "SLIPWAY_DATABASE_URL": postgres.url,
            "SLIPWAY_LOG_LEVEL": "WARNING",
        }
        import django

        django.setup()
        world = OutsideWorld()
        os.environ[PORT] = str(world.serve())
        run, parts = FireRun(options.releases, options.at_once, world, rng), KilledProcesses(home, rng)
        stack.callback(parts.stop)
        ended = stuck = 0
        told = time.monotonic()

        def all_ended() -> bool:
            nonlocal ended, stuck, told
            ended, stuck = run.go_on()
            if time.monotonic() > told + 30:
                told = time.monotonic()
                print(
                    f"{ended} ended, {stuck} stuck, {parts.kills.total()} kills", file=sys.stderr, flush=True
                )
            return ended + stuck >= 2 * (options.releases // 2)

        def fire() -> None:
            parts.keep_running()
            parts.kill_when_due()

        parts.keep_running()
        until(parts.pool, 180, parts.keep_running)
        took = until(all_ended, options.limit, fire)
        if stuck:
            until(has_alert, 60, parts.keep_running)
        until(lambda: not run.faults(), 120, parts.keep_running)
        faults = run.faults()
        for fault in faults[:20]:
            print(fault, file=sys.stderr)
        rows = rows_of(run, parts, took, ended, stuck, faults)
        if any(not row.holds for row in rows):
            for log in (home / "logs").glob("*.log"):
                print(f"== {log.name}\n{log.read_text()[-4000:]}", file=sys.stderr)
    sys.exit(report(rows))


def rows_of(
    run: FireRun, parts: KilledProcesses, took: float, ended: int, stuck: int, faults: list[str]
) -> list[RequiredFigure]:
    from releases.models import Release

    states = Counter(Release.objects.values_list("state", flat=True))
    wanted = 2 * (run.wanted // 2)
    others = Counter(Release.objects.filter(state="failed").values_list("outcome", flat=True))
    return [
        RequiredFigure("releases by state", ", ".join(f"{count} {name}" for name, count in states.items())),
        *(RequiredFigure("failed", f"{count}: {why}") for why, count in others.most_common(3)),
        RequiredFigure("decisions", ", ".join(f"{count} {name}" for name, count in run.decided.items())),
        RequiredFigure("kills", ", ".join(f"{count} {name}" for name, count in parts.kills.items())),
        RequiredFigure("seconds", f"{took:.0f}"),
        at_least("releases that ended or are stuck", ended + stuck, wanted),
        at_least("releases that were promoted", states["promoted"], wanted / 2),
        RequiredFigure("stuck", str(stuck), "an alert, if any", not stuck or has_alert()),
        RequiredFigure("faults", str(len(faults)), "none", not faults),
    ]


if __name__ == "__main__":
    main()
