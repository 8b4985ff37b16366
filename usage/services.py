"""Writes of usage and of budgets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from clusters.backends.pod_settings import ResourceSettings
from clusters.models import Deployment, Worker
from clusters.states import WorkerState
from common import audit, clock
from common.actor import Actor
from common.errors import Invalid
from common.live.touch import touch
from gateway.client_access import ClientCounts, unpacked_clients, unpacked_processes
from gateway.history import minute_of, unpacked
from gateway.models import ClientKey, TrafficReading
from gpu_health.models import GpuPrices
from gpu_health.statistics.cases import price_of
from usage.metering import Counts, MeterReading, keys_of, used
from usage.models import Budget, UsageDay, UsageMeter
from usage.states import BudgetState, UsageMeasure

LONGEST_GAP = timedelta(minutes=5)
"""GPU hours are counted by looking each minute; of a longer time without a look nobody knows."""
COUNTED = ("requests", "errors", "refused", "prompt_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class GpuUse:
    """GPUs that the workers of a deployment hold at this moment."""

    gpus: float
    cost_per_hour: float


def record_usage(meter: UsageMeter, now: datetime) -> dict[str, Any]:
    """Add what was used since the last call; returns the meter's new columns. For inside a transaction."""
    until = minute_of(now) - 1
    begun = meter.minute or until
    by_day = _counted(begun, until)
    held = _gpus_held()
    elapsed = min(now - meter.metered_at, LONGEST_GAP) if meter.metered_at else timedelta(0)
    names = {target for counts in by_day.values() for target, _key in counts} | set(held)
    deployments = {row.name: row for row in Deployment.objects.filter(name__in=names).select_related("team")}
    keys = dict(ClientKey.objects.filter(pk__in=keys_of(by_day.values())).values_list("pk", "name"))
    for day, counts in by_day.items():
        for (target, key), number in counts.items():
            if (row := deployments.get(target)) is not None:
                _add(day, row, int(key), keys.get(int(key), ""), number)
    hours = elapsed / timedelta(hours=1)
    for target, use in held.items():
        if hours and use.gpus and (row := deployments.get(target)) is not None:
            _add(
                now.date(),
                row,
                0,
                "",
                ClientCounts(),
                gpu_seconds=use.gpus * elapsed.total_seconds(),
                cost=use.cost_per_hour * hours,
            )
    _judge_budgets(now.date())
    return {"minute": until, "metered_at": now}


def _counted(after: int, until: int) -> dict[date, Counts]:
    readings = TrafficReading.objects.filter(minute__gt=after, minute__lte=until).order_by("minute")
    by_route: dict[int, list[MeterReading]] = {}
    for row in readings:
        by_route.setdefault(row.route_id, []).append(_reading(row))
    found: dict[date, dict[tuple[str, str], ClientCounts]] = {}
    for route, after_it in by_route.items():
        earlier = TrafficReading.objects.filter(route=route, minute__lte=after).order_by("-minute").first()
        for day, counts in used(after_it, _reading(earlier) if earlier else None).items():
            of_day = found.setdefault(day, {})
            for of, number in counts.items():
                of_day[of] = of_day.get(of, ClientCounts()) + number
    return dict(found)


def _reading(row: TrafficReading) -> MeterReading:
    return MeterReading(
        row.at.date(),
        unpacked(row.counts),
        unpacked_clients(row.clients),
        unpacked_processes(row.clients),
    )


def _gpus_held() -> dict[str, GpuUse]:
    """By deployment: those of workers on machines that have GPUs."""
    prices = GpuPrices.objects.filter(pk=GpuPrices.ONLY).first()
    entries = prices.entries if prices else ()
    found: dict[str, GpuUse] = {}
    workers = (
        Worker.objects.exclude(state=WorkerState.FAILED)
        .exclude(deployment__device="cpu")
        .filter(node__gpus__isnull=False)
        .distinct()
        .select_related("deployment__cluster", "node")
        .prefetch_related("node__gpus")
    )
    for worker in workers:
        deployment, node = worker.deployment, worker.node
        if node is None:
            continue
        gpus = ResourceSettings.read(deployment.resources).resources().gpus
        model = node.gpus.all()[0].name
        price = price_of(entries, deployment.cluster.name, model)
        before = found.get(deployment.name, GpuUse(0, 0))
        found[deployment.name] = GpuUse(before.gpus + gpus, before.cost_per_hour + float(price or 0) * gpus)
    return found


def _add(
    day: date,
    deployment: Deployment,
    key_id: int,
    key: str,
    counts: ClientCounts,
    *,
    gpu_seconds: float = 0.0,
    cost: float = 0.0,
) -> None:
    row, _made = UsageDay.objects.get_or_create(
        day=day,
        team_id=deployment.team_id,
        service=deployment.service,
        version=deployment.version_label,
        key_id=key_id,
        defaults={"key": key},
    )
    more = dict(zip(COUNTED, counts.as_numbers(), strict=True)) | {"gpu_seconds": gpu_seconds, "cost": cost}
    UsageDay.objects.filter(pk=row.pk).update(**{name: F(name) + one for name, one in more.items()})


def create_budget(
    *,
    actor: Actor,
    team: Team,
    name: str,
    measure: str,
    amount: float,
    service: str = "",
    warn_percent: int = 80,
    description: str = "",
) -> Budget:
    """Set a budget of a calendar month; an alert fires when it is nearly spent, and when it is. Raises
    NotAllowed, Invalid, Conflict.
    """
    if not amount > 0:
        raise Invalid(fields={"amount": [_("Give an amount above 0.")]})
    row = Budget(
        team=team,
        name=name,
        description=description,
        service=service,
        measure=measure,
        amount=amount,
        warn_percent=warn_percent,
    )
    team_rows.create(row, actor=actor, right=Right.SERVICES_WRITE)
    _judge_budgets(clock.now().date(), [row])
    touch("changes", "budgets")
    return row


def delete_budget(row: Budget, *, actor: Actor, reason: str = "") -> None:
    """Raises NotAllowed."""
    require(actor, Right.SERVICES_WRITE, row.team)
    with transaction.atomic():
        audit.record(actor, "budget.delete", subject=row, reason=reason, team_id=row.team_id)
        row.delete()
    touch("changes", "budgets")


def _judge_budgets(today: date, rows: Iterable[Budget] | None = None) -> None:
    changed = False
    for row in Budget.objects.all() if rows is None else rows:
        sums = _month_of(row, today)
        row.used = sums[row.measure]
        share = 100 * row.used / row.amount
        state = BudgetState.SPENT if share >= 100 else BudgetState.NEAR
        row.state = state if share >= row.warn_percent else BudgetState.WITHIN
        changed = changed or bool(
            Budget.objects.filter(pk=row.pk).exclude(state=row.state).update(state=row.state)
        )
        Budget.objects.filter(pk=row.pk).update(used=row.used)
    if changed:
        touch("changes", "budgets")


def _month_of(row: Budget, today: date) -> Mapping[str, float]:
    days = UsageDay.objects.filter(team=row.team_id, day__gte=today.replace(day=1), day__lte=today)
    if row.service:
        days = days.filter(service=row.service)
    found = days.aggregate(
        requests=Sum("requests"),
        tokens=Sum(F("prompt_tokens") + F("completion_tokens")),
        gpu_seconds=Sum("gpu_seconds"),
        cost=Sum("cost"),
    )
    return {
        UsageMeasure.REQUESTS: float(found["requests"] or 0),
        UsageMeasure.TOKENS: float(found["tokens"] or 0),
        UsageMeasure.GPU_HOURS: (found["gpu_seconds"] or 0) / 3600,
        UsageMeasure.COST: found["cost"] or 0.0,
    }
