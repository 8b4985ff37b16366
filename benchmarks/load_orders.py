"""What a run's load generator is told to do, and where it runs: a process beside the control plane, or a Job
of the cluster on a machine without a GPU."""

import sys
from contextlib import suppress
from dataclasses import replace
from json import dumps
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from benchmarks import deploying, load_tokens, selectors
from benchmarks.load import aiperf, builtin
from benchmarks.load.max_rate import MOST_PROBES
from benchmarks.models import BenchmarkRun
from benchmarks.spec import spec_of
from benchmarks.states import LoadEngineKind
from clusters.backends.embedded.backend import ENVIRONMENTS
from clusters.backends.extras import ClusterJobPlace
from clusters.errors import DeploymentMissing
from common.jobs.spec import JobContainer, JobLimits, JobSpec, JobState
from common.jobs.steps import CannotStart, owner

PACKAGE_INDEXES = ("PIP_*", "UV_*", "HOME", "*_proxy", "*_PROXY", "SSL_CERT_FILE")
"""Variables by which a load engine finds the packages of its environment, when that is made."""
SLACK_SECONDS = 600
"""Beyond the windows and their timeouts a generator may take so long before it is ended."""
MEMORY_BYTES = 4 * 1024**3
"""Of a generator in a cluster, with either engine."""


def order_of(run: BenchmarkRun) -> dict[str, Any]:
    """Return the order as `benchmarks.load` takes it. Raises CannotStart."""
    scenario = run.benchmark.scenario.load
    content = scenario.as_json()
    if run.fraction < 1:
        shorter = {"requests": scenario.requests, "seconds": scenario.seconds}
        content |= {
            name: type(value)(max(1, value * run.fraction)) if value else None
            for name, value in shorter.items()
        }
    # No repeat sends the prompts of another.
    content["seed"] = scenario.seed + 7_919 * run.repeat
    addresses: list[str] = []
    with suppress(DeploymentMissing):
        addresses = deploying.addresses(run.deployment)
    if not addresses:
        raise CannotStart(_("None of its workers is ready any more."))
    return {
        "scenario": content,
        "addresses": addresses,
        "model": str(run.cell.version),
        "price_per_hour": selectors.price_per_hour(run.benchmark.cluster, run.environment["gpus"]),
        "system": deploying.system_sources(run.deployment, addresses),
        "engine": spec_of(run.benchmark.spec).load_engine,
        "environments": str(settings.SLIPWAY_RUN_DIR.parent / ENVIRONMENTS),
    }


def job_of(run: BenchmarkRun, op_key: str, place: ClusterJobPlace | None) -> JobSpec:
    """`place`: in the cluster; None: beside the control plane. Raises CannotStart, Unavailable."""
    order = order_of(run)
    scenario = run.benchmark.scenario.load
    windows = MOST_PROBES if scenario.find_max_rate else len(scenario.rates)
    wall_seconds = 2 * scenario.least_seconds + windows * scenario.timeout_seconds + SLACK_SECONDS
    cores = builtin.cores_for(scenario)
    if order["engine"] == LoadEngineKind.AIPERF:
        wall_seconds += aiperf.longest_overhead_seconds(windows)
        cores = aiperf.cores_for(scenario)
    if place is None:
        return JobSpec(
            op_key=op_key,
            owner=owner(run),
            argv=(sys.executable, "-m", "benchmarks.load"),
            environment=PACKAGE_INDEXES,
            stdin=dumps(order).encode(),
            limits=JobLimits(wall_seconds=wall_seconds),
        )
    machines = selectors.machines_for_load(run.benchmark.cluster, besides=run.deployment)
    if not machines:
        raise CannotStart(
            _("The cluster has no machine without a GPU for the load generator, beside those of its workers.")
        )
    if not place.control_plane:
        raise CannotStart(_("The cluster's settings have no address of Slipway: set store_url."))
    spec = JobSpec(
        op_key=op_key,
        owner=owner(run),
        argv=("python", "-m", "benchmarks.load", "--fetch", place.runner.input_file),
        limits=JobLimits(wall_seconds=wall_seconds, cpus=cores, memory_bytes=MEMORY_BYTES),
        container=JobContainer(machines=tuple(machines)),
    )
    if place.runner.observe(spec.name).state is JobState.GONE:
        # No job has the token of an attempt that did not come so far.
        load_tokens.revoke(run)
    told = {"url": place.control_plane, "token": load_tokens.issue(run, lives_seconds=wall_seconds)}
    return replace(spec, stdin=dumps(told).encode())
