"""What Prometheus reads of the kernel's rows, of who takes them, and of the audit log."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from common import audit, clock
from common.database.connections import server_connections
from common.hosts import this_host
from common.reconcile import pulses, silent_hosts
from common.reconcile.backlog import backlogs


def gauge(
    name: str, help_text: str, labels: Sequence[str], samples: Sequence[tuple[tuple[str, ...], float]]
) -> Metric:
    """`slipway_<name>`; `samples`: values of the labels, and what was measured."""
    family = GaugeMetricFamily(f"slipway_{name}", help_text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def database_connections() -> Iterator[Metric]:
    """Yield the connections as the server counts them, for all processes of all machines."""
    found = server_connections()
    yield gauge(
        "database_connections",
        "Connections to the database of all processes, by role and state.",
        ("role", "state"),
        [(key, float(number)) for key, number in sorted(found.by_role.items())] if found else [],
    )
    yield gauge(
        "database_connections_limit",
        "Connections that the database server takes at most (max_connections).",
        (),
        [((), float(found.limit))] if found else [],
    )


def work() -> Iterator[Metric]:
    """The rows, and who takes them."""
    found = pulses.takers().values()
    yield from _rows({lane for one in found for lane in one.hung})
    yield from _takers(found)


def _rows(hung_lanes: Collection[str]) -> Iterator[Metric]:
    found = backlogs(hung_lanes=hung_lanes)
    for name, help_text, column in (
        ("rows_due", "Rows whose next step is due and unclaimed.", "due"),
        (
            "rows_overdue",
            "Rows that have been due for more than 10 s, but for those of lanes that hang.",
            "overdue",
        ),
        ("rows_stuck", "Rows that wait for a person.", "stuck"),
        ("rows_failing", "Rows whose step has failed for minutes and is tried further.", "failing"),
        (
            "oldest_due_seconds",
            "For how long a row has been due at most, lanes that hang left out.",
            "oldest_seconds",
        ),
    ):
        samples = [((kind,), float(getattr(one, column))) for kind, one in found.items()]
        yield gauge(name, help_text, ("kind",), samples)


def _takers(found: Collection[pulses.StepWorkers]) -> Iterator[Metric]:
    now = clock.now()
    yield gauge(
        "clock_skew_seconds",
        "Seconds that the database's clock is ahead of the host's, of hosts that take due rows.",
        ("host",),
        [((host,), skew) for host, skew in pulses.skews(found).items()],
    )
    yield gauge(
        "takers",
        "Processes by role and by whether they have taken due rows in the last seconds.",
        ("role", "state"),
        [((one.role, state), float(getattr(one, state))) for one in found for state in ("alive", "silent")],
    )
    yield gauge(
        "taker_silent_seconds",
        "For how long the one that hangs has taken nothing; 0 when none does.",
        ("role",),
        [((one.role,), (now - one.hung_since).total_seconds() if one.hung_since else 0.0) for one in found],
    )
    hung = sum((Counter(one.hung) for one in found), Counter())
    yield gauge(
        "lane_hung",
        "Processes in which a step waits for this outside system beyond its limit.",
        ("lane",),
        [((lane,), float(number)) for lane, number in sorted(hung.items())],
    )
    for name, help_text, column in (
        ("steps_taken", "Steps of rows, by the role of the process that took them.", "taken"),
        ("leases_run_out", "Steps that took longer than their lease, or whose process ended.", "run_out"),
        (
            "takers_lost",
            "Processes that ended without a word: killed, or replaced because they hung.",
            "lost",
        ),
    ):
        family = CounterMetricFamily(f"slipway_{name}", help_text, labels=("role",))
        for one in found:
            family.add_metric((one.role,), getattr(one, column))
        yield family


def hosts() -> Iterator[Metric]:
    known = dict.fromkeys([this_host(), *pulses.living_hosts()], 0)
    found = known | silent_hosts.rows_by_host(silent_hosts.waiting())
    yield gauge(
        "host_silent_rows",
        "Rows that are due and wait for this host, of which no process gives a sign of life.",
        ("host",),
        [((host,), float(rows)) for host, rows in sorted(found.items())],
    )


def audit_records() -> Iterator[Metric]:
    yield CounterMetricFamily("slipway_audit_records", "Rows of the audit record.", value=audit.length())


def histogram(
    name: str,
    help_text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[tuple[str, ...], Sequence[tuple[float, int]], float | None]],
) -> Metric:
    """`slipway_<name>`; `samples`: values of the labels, cumulative counts by upper bound up to infinity, and
    the sum of what was measured, where it is known.
    """
    family = HistogramMetricFamily(f"slipway_{name}", help_text, labels=labels)
    for values, buckets, total in samples:
        family.add_metric(values, [(_bound(bound), count) for bound, count in buckets], total)
    return family


def _bound(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else repr(float(bound))


def counter(
    name: str, help_text: str, labels: Sequence[str], samples: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    """`slipway_<name>_total`."""
    family = CounterMetricFamily(f"slipway_{name}", help_text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
