"""Things that have charts: how each is found, and which figures it has."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from django.conf import settings
from django.http import Http404
from django.utils.translation import gettext as _

from charts.marks import incident_marks, release_marks, scaling_marks
from charts.time_range import ChartTimes
from clusters import selectors as fleet
from clusters.fleet import ClusterSnapshot, NodeSnapshot
from clusters.history import Measure
from clusters.kept_history import kept_seconds, kept_steps
from clusters.models import Gpu
from clusters.states import MachineGroup
from common.actor import Actor
from common.pages.charts import Chart, Dash, Paint, Series, Unit
from gateway import selectors as gateway
from releases.models import Release, Service
from releases.pages.traffic_charts import ChartRange, moments_of, traffic_charts

LOOKS: Sequence[tuple[Paint, Dash]] = (
    ("stable", "solid"),
    ("candidate", "dashed"),
    ("earlier-1", "dotted"),
    ("earlier-2", "dash-dot"),
)
MINUTE = timedelta(minutes=1)
LOAD: Sequence[Measure] = ("busy", "in_flight", "queue")


@dataclass(frozen=True, slots=True)
class ChartSubject:
    """A thing with charts: each line is a subject of the fleet's memory."""

    title: str
    address: str
    """Page of the thing itself."""
    lines: Mapping[str, str] = field(default_factory=dict)
    """Subject of `clusters.history` by the line's name; at most as many as there are `LOOKS`."""
    measures: Sequence[Measure] = LOAD
    services: frozenset[str] = frozenset()
    """Those whose releases are marked."""
    nodes: frozenset[int] = frozenset()
    """Machines whose incidents are marked."""
    scales: str = ""
    """The subject whose number of workers is marked; empty: none."""
    scraped: Mapping[str, str] = field(default_factory=dict)
    """Series of `/metrics` by the line's name, which tells how busy it was before what is kept."""
    traffic: Mapping[str, str] = field(default_factory=dict)
    """Deployment by the line's name, of the one service whose traffic is shown."""


def subject_named(kind: str, name: str, actor: Actor) -> ChartSubject:
    """Raises Http404."""
    finder = _FINDERS.get(kind)
    found = finder(name, actor) if finder else None
    if found is None:
        raise Http404(_("There is no such thing with charts, or you may not see it."))
    return found


def charts_of(subject: ChartSubject, actor: Actor, times: ChartTimes) -> list[tuple[str, Chart]]:
    """Return the charts, each with its id, all of one time and with the same marks. Raises GatewayError where
    a Prometheus is asked and does not answer.
    """
    marks = [
        *release_marks(actor, subject.services, times),
        *incident_marks(actor, subject.nodes, times),
    ]
    if subject.scales and not times.is_long_past:
        step = max(times.step, MINUTE)
        marks += scaling_marks(
            kept_steps(subject.scales, "workers", since=times.since, until=times.until, step=step)
        )
    found = (
        [_long_past(subject, times)]
        if times.is_long_past
        else [*_traffic(subject, times), *(_figure(subject, one, actor, times) for one in subject.measures)]
    )
    return [
        (name, replace(chart, marks=marks, since=times.since, until=times.until, window_seconds=0))
        for name, chart in found
    ]


def _figure(subject: ChartSubject, measure: Measure, actor: Actor, times: ChartTimes) -> tuple[str, Chart]:
    titles: Mapping[str, tuple[str, Unit]] = {
        "busy": (_("Busy"), "percent"),
        "memory": (_("Memory in use"), "percent"),
        "in_flight": (_("Requests in flight"), "plain"),
        "queue": (_("Requests waiting"), "plain"),
        "workers": (_("Workers"), "plain"),
    }
    title, unit = titles[measure]
    if times.step < MINUTE and measure == "busy":
        now = fleet.fleet(actor)
        steps = [
            dict(kept_seconds(one, now, since=times.since, until=times.until, step=times.step))
            for one in subject.lines.values()
        ]
    else:
        step = max(times.step, MINUTE)
        steps = [
            dict(kept_steps(one, measure, since=times.since, until=times.until, step=step))
            for one in subject.lines.values()
        ]
    return measure, _lines_of(subject.lines, steps, title, unit)


def _long_past(subject: ChartSubject, times: ChartTimes) -> tuple[str, Chart]:
    """Return how busy it was, as Prometheus has it: the mean of each step over all that scraped it."""
    every = f"{int(times.step.total_seconds())}s"
    steps = [
        {
            datetime.fromtimestamp(at, UTC): value
            for one in gateway.long_past(
                f"avg(avg_over_time({series}[{every}]))",
                url=settings.SLIPWAY_PROMETHEUS_URL,
                token=settings.SLIPWAY_PROMETHEUS_TOKEN,
                since=times.since,
                until=times.until,
                step=times.step,
            )
            for at, value in one.samples
        }
        for series in subject.scraped.values()
    ]
    return "busy", _lines_of(list(subject.scraped), steps, _("Busy"), "percent")


def _lines_of(
    names: Iterable[str], steps: Sequence[Mapping[datetime, float | None]], title: str, unit: Unit
) -> Chart:
    moments = sorted({at for line in steps for at in line})
    return Chart(
        title=title,
        moments=moments,
        series=[
            Series(name, [values.get(at) for at in moments], *look, fill=look is LOOKS[0])
            for name, values, look in zip(names, steps, LOOKS, strict=False)
        ],
        unit=unit,
        minimum=0,
        maximum=1 if unit == "percent" else None,
    )


def _series(name: str, **labels: str) -> str:
    return f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels.items())}}}"


def _of_deployment(name: str) -> str:
    return _series("slipway_deployment_busy_ratio", deployment=name)


def _traffic(subject: ChartSubject, times: ChartTimes) -> list[tuple[str, Chart]]:
    if not subject.traffic:
        return []
    (service,) = subject.services
    step = max(times.step, MINUTE)
    history = gateway.traffic_history(service, since=times.since, until=times.until, step=step)
    span = ChartRange("", times.until - times.since, step)
    found = traffic_charts(moments_of(history, ()), subject.traffic, span=span)
    # The page shows a stretch of time as it was: nothing grows.
    return [
        (name, replace(chart, series=[replace(one, live="") for one in chart.series]))
        for name, chart in found
    ]


def _service(name: str, actor: Actor) -> ChartSubject | None:
    row = Service.objects.for_actor(actor).filter(name=name).first()
    if row is None:
        return None
    releases = Release.objects.filter(service=row).exclude(candidate_deployment="").select_related("version")
    labels = {row.stable_deployment: "stable"} if row.stable_deployment else {}
    for release in releases.order_by("-pk")[: len(LOOKS)]:
        labels.setdefault(release.candidate_deployment, f"{release.version.name} (#{release.pk})")
    versions = {label: deployment for deployment, label in islice(labels.items(), len(LOOKS))}
    return ChartSubject(
        title=row.name,
        address=f"/services/{row.name}/",
        lines={label: f"deployment:{one}" for label, one in versions.items()},
        measures=("busy", "in_flight", "queue", "workers"),
        services=frozenset({row.name}),
        scales=f"deployment:{row.stable_deployment}",
        scraped={label: _of_deployment(one) for label, one in versions.items()},
        traffic=versions,
    )


def _deployment(name: str, actor: Actor) -> ChartSubject | None:
    row = fleet.visible_deployment(actor, name)
    if row is None:
        return None
    return ChartSubject(
        title=f"{row.service} {row.version_label}",
        address=f"/fleet/deployments/{row.name}/",
        lines={row.version_label: f"deployment:{row.name}"},
        measures=("busy", "in_flight", "queue", "workers"),
        services=frozenset({row.service}),
        scales=f"deployment:{row.name}",
        scraped={row.version_label: _of_deployment(row.name)},
        traffic={row.version_label: row.name},
    )


def _worker(name: str, actor: Actor) -> ChartSubject | None:
    row = next((one for one in fleet.fleet(actor).workers if one.row.name == name), None)
    if row is None:
        return None
    return ChartSubject(
        title=name,
        address=f"/fleet/workers/{name}/",
        lines={name: f"worker:{name}"},
        services=frozenset({row.deployment.service}),
        nodes=frozenset({row.row.node_id} if row.row.node_id else ()),
    )


def _nodes(actor: Actor) -> Iterable[NodeSnapshot]:
    return (node for cluster in fleet.fleet(actor).clusters for node in cluster.nodes)


def _machine(name: str, actor: Actor) -> ChartSubject | None:
    clusters = fleet.fleet(actor).clusters
    names = {cluster.row.pk: cluster.row.name for cluster in clusters}
    node = next((one for cluster in clusters for one in cluster.nodes if str(one.row.pk) == name), None)
    if node is None:
        return None
    return ChartSubject(
        title=node.row.name,
        address=f"/fleet/nodes/{node.row.pk}/",
        lines={node.row.name: f"node:{node.row.pk}"},
        measures=(*LOAD, "memory"),
        services=frozenset(one.deployment.service for one in node.workers),
        nodes=frozenset({node.row.pk}),
        scraped={
            node.row.name: _series(
                "slipway_machine_busy_ratio", cluster=names[node.row.cluster_id], machine=node.row.name
            )
        },
        scales=f"node:{node.row.pk}",
    )


def _gpu(name: str, actor: Actor) -> ChartSubject | None:
    row = Gpu.objects.select_related("node").filter(pk=name).first() if name.isdecimal() else None
    if row is None or not any(node.row.pk == row.node_id for node in _nodes(actor)):
        return None
    return ChartSubject(
        title=f"{row.node.name} GPU {row.index}",
        address=f"/fleet/nodes/{row.node_id}/",
        lines={f"GPU {row.index}": f"gpu:{row.node_id}:{row.uuid}"},
        measures=("busy", "memory"),
        nodes=frozenset({row.node_id}),
    )


def _cluster(name: str, actor: Actor) -> ChartSubject | None:
    found = next((one for one in fleet.fleet(actor).clusters if one.row.name == name), None)
    if found is None:
        return None
    return ChartSubject(
        title=name,
        address=f"/fleet/clusters/{name}/",
        lines={_("whole cluster"): f"cluster:{found.row.pk}", **_groups(found)},
        services=frozenset(one.row.service for one in found.deployments),
        nodes=frozenset(one.row.pk for one in found.nodes),
        scraped={_("whole cluster"): _series("slipway_cluster_busy_ratio", cluster=name)},
        scales=f"cluster:{found.row.pk}",
    )


def _groups(cluster: ClusterSnapshot) -> dict[str, str]:
    """Return the groups of machines, where there are several."""
    names = sorted({node.row.group for node in cluster.nodes})
    if len(names) < 2:
        return {}
    return {str(MachineGroup(one).label): f"group:{cluster.row.pk}:{one}" for one in names[: len(LOOKS) - 1]}


_FINDERS: Mapping[str, Callable[[str, Actor], ChartSubject | None]] = {
    "service": _service,
    "version": _deployment,
    "worker": _worker,
    "machine": _machine,
    "gpu": _gpu,
    "cluster": _cluster,
}
KINDS = tuple(_FINDERS)
