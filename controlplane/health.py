"""What every part says of itself, each within a second: `/readyz` and Home show it."""

import socket
import time
from collections import Counter
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from common import clock, disk
from common.declared import manifests
from common.disk import DiskState
from common.health import LIMIT_SECONDS, HealthProbe, NotInUse, PartHealth, Unhealthy, Words
from common.hosts import this_host
from common.live.redis import client
from common.pages import formats
from common.reconcile import pulses, silent_hosts
from common.reconcile.pulses import StepWorkers, living_hosts, takers
from common.resealing import dead_secrets
from controlplane.backup.last import last_backup, longest_age
from controlplane.celery import app
from controlplane.heartbeats import living_workers


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    return connection.vendor


def _redis() -> str:
    # Not through common.live: its doors stay shut for a while after a failure, and this asks about now.
    with client(settings.REDIS_URL, patience_seconds=0.8) as asked:
        asked.ping()
    return "answers"


def _broker() -> str:
    with app.connection_for_write(connect_timeout=0.8) as broker:
        broker.ensure_connection(max_retries=1, interval_start=0, timeout=1)
    return "connected"


def _worker() -> Words:
    names = living_workers()
    if not names:
        raise Unhealthy(_("no Celery worker was heard of in the last 10 s"))
    return format_lazy("{}; {}", ", ".join(names), _taking(takers()["worker"]))


def _sweeper() -> Words:
    return _taking(takers()["sweeper"])


def _reconcilers() -> Words:
    """Whether due rows are taken by anybody at all: without, no release moves and no judge looks."""
    found = takers()
    alive = [one for one in found.values() if one.alive]
    if not alive:
        last = max((one.last_at for one in found.values() if one.last_at), default=None)
        if last is None:
            raise Unhealthy(_("nothing takes due work: neither sweeper nor Celery worker has begun"))
        raise Unhealthy(
            format_lazy(
                _("nothing has taken due work for {seconds} s: neither sweeper nor Celery worker"),
                seconds=f"{_age(last):.0f}",
            )
        )
    return ", ".join(f"{one.alive} {one.role}" for one in alive)


def takes_here(role: str) -> HealthProbe:
    """Whether the processes of that role on this machine take what is due."""

    def ask() -> Words:
        return _taking(takers(roles=(role,), machine=socket.gethostname())[role])

    return HealthProbe(role, ask, vital=True)


def _taking(found: StepWorkers) -> Words:
    """Describe how the processes of one role fare. Raises Unhealthy when one hangs, or none is there."""
    if found.hung_since is not None:
        raise Unhealthy(
            format_lazy(
                ngettext_lazy(
                    "{number} process has not taken due work for {seconds} s: {names}",
                    "{number} processes have not taken due work for {seconds} s: {names}",
                    found.silent,
                ),
                number=found.silent,
                names=", ".join(found.silent_names),
                seconds=f"{_age(found.hung_since):.0f}",
            )
        )
    if found.last_at is None:
        raise Unhealthy(_("takes no due work"))
    seen = format_lazy(
        _("{steps} steps taken, last look {seconds} s ago"),
        steps=f"{found.taken:,}",
        seconds=f"{_age(found.last_at):.1f}",
    )
    if not found.hung:
        return seen
    return format_lazy(_("{seen}; steps hang at {lanes}"), seen=seen, lanes=", ".join(sorted(found.hung)))


def _age(at: datetime) -> float:
    return (clock.now() - at).total_seconds()


def _hosts() -> Words:
    """Whether rows wait for a host of which nobody takes them."""
    found = silent_hosts.rows_by_host(silent_hosts.waiting())
    if found:
        raise Unhealthy(
            format_lazy(_("no sign of life of {hosts}, for which work waits"), hosts=", ".join(sorted(found)))
        )
    return ", ".join(sorted(living_hosts())) or "-"


def clocks() -> Words:
    """Whether the clocks of this host and of those that take due rows go as the database's does."""
    skews = pulses.skews(takers().values()) | {this_host(): clock.skew_seconds()}
    off = {host: skew for host, skew in sorted(skews.items()) if abs(skew) > clock.UNHEALTHY_SECONDS}
    if not off:
        return format_lazy(_("within {seconds} s of the database's"), seconds=f"{clock.UNHEALTHY_SECONDS:g}")
    names = ", ".join(f"{host} ({-skew:+.0f} s)" for host, skew in off.items())
    raise Unhealthy(format_lazy(_("off the database's clock: {hosts}; check NTP there"), hosts=names))


def _disk() -> Words:
    room = disk.room()
    told = {
        "free": formats.byte_size(max(0, room.free)),
        "total": formats.byte_size(room.total),
        "path": room.path,
    }
    if room.is_full:
        raise Unhealthy(format_lazy(_("full: {free} of {total} free; free space in {path}"), **told))
    if room.state is DiskState.LOW:
        return format_lazy(_("almost full: {free} of {total} free"), **told)
    return format_lazy(_("{free} of {total} free"), **told)


def _backup() -> Words:
    made, limit = last_backup(), longest_age()
    if made is None:
        if limit is None:
            raise NotInUse(_("none was made by slipway-server backup"))
        raise Unhealthy(_("none was made yet by slipway-server backup"))
    told = format_lazy(_("the last one is of {moment} UTC"), moment=f"{made:%Y-%m-%d %H:%M}")
    if limit is not None and clock.now() - made > limit:
        hours = limit // timedelta(hours=1)
        raise Unhealthy(format_lazy(_("{seen}, more than {hours} h ago"), seen=told, hours=hours))
    return told


class _Secrets:
    """Whether every stored secret has a key that opens it; looked at now and then.

    By kind: whose they are is not for everybody who sees Home, and `slipway-server reseal` names them.
    """

    EVERY_SECONDS = 60.0

    def __init__(self) -> None:
        self._dead: Counter[str] = Counter()
        self._looked_at = -self.EVERY_SECONDS

    def __call__(self) -> Words:
        if time.monotonic() - self._looked_at >= self.EVERY_SECONDS:
            self._dead = Counter(str(one.row._meta.label_lower) for one in dead_secrets())
            self._looked_at = time.monotonic()
        if not self._dead:
            return _("every stored secret has its key")
        raise Unhealthy(
            format_lazy(
                ngettext_lazy(
                    "{number} stored secret is sealed with a key that is not here: {names}",
                    "{number} stored secrets are sealed with a key that is not here: {names}",
                    self._dead.total(),
                ),
                number=self._dead.total(),
                names=", ".join(f"{kind} ({count})" for kind, count in sorted(self._dead.items())),
            )
        )


# Vital is what a web process cannot answer without. Without the others it says what is missing: a load
# balancer that took it away for them would leave nobody to say it. Apps name theirs in their manifests.
PROBES = (
    HealthProbe("database", _database, vital=True, title=_("Database")),
    HealthProbe("redis", _redis, vital=False, title=_("Live layer (Redis)")),
    HealthProbe("broker", _broker, vital=False, title=_("Message broker")),
    HealthProbe("reconcilers", _reconcilers, vital=False, title=_("Reconcile loops")),
    HealthProbe("hosts", _hosts, vital=False, title=_("Hosts")),
    HealthProbe("secrets", _Secrets(), vital=False, title=_("Stored secrets")),
    HealthProbe("backup", _backup, vital=False, title=_("Backup")),
    HealthProbe("clock", clocks, vital=False, title=_("Clocks")),
    HealthProbe("disk", _disk, vital=True, title=_("Disk")),
    HealthProbe("worker", _worker, vital=False, title=_("Celery worker")),
    HealthProbe("sweeper", _sweeper, vital=False, title=_("Sweeper")),
)


TAKERS_PROBES = (
    HealthProbe("database", _database, vital=True),
    HealthProbe("disk", _disk, vital=True),
    HealthProbe("broker", _broker, vital=False),
)
"""Of a process that takes due rows: without the broker it goes on taking them."""


def parts_health(probes: tuple[HealthProbe, ...] | None = None) -> dict[str, PartHealth]:
    """Ask every part, side by side, in at most LIMIT_SECONDS; by default all that there are."""
    if probes is None:
        probes = (*PROBES, *(probe for manifest in manifests() for probe in manifest.probes))
    deadline = time.monotonic() + LIMIT_SECONDS
    asked = [(probe, probe.begin()) for probe in probes]
    return {probe.name: probe.answer(future, deadline=deadline) for probe, future in asked}
