"""Tokens by which load generators in a cluster fetch their orders and hand in results: each of one run."""

from datetime import timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.services.tokens import revoke_of_part
from accounts.states import Right
from benchmarks.deploying import ACTOR
from benchmarks.models import BenchmarkLoadToken, BenchmarkRun
from clusters.services.node_agents import issue_to_machines
from common.actor import Actor
from common.errors import NotAllowed

SPARE = timedelta(hours=1)
"""For the start of its pod, beyond the time that the job may take."""


def issue(run: BenchmarkRun, *, lives_seconds: float) -> str:
    """Return a token that speaks for this run. Raises FleetNameTaken when a person has the name of the
    machines' account."""
    benchmark = run.benchmark
    with transaction.atomic():
        issued = issue_to_machines(
            actor=ACTOR,
            cluster=benchmark.cluster,
            name=f"benchmark-{benchmark.pk}-{run.position}",
            right=Right.BENCHMARKS_LOAD,
            lives=timedelta(seconds=lives_seconds) + SPARE,
            reason=f"{run}",
            team=benchmark.team,
        )
        BenchmarkLoadToken.objects.create(run=run, token=issued.token)
    return issued.text


def revoke(run: BenchmarkRun) -> None:
    rows = BenchmarkLoadToken.objects.filter(run=run, token__revoked_at=None)
    for one in rows.select_related("token__owner"):
        revoke_of_part(actor=ACTOR, token=one.token, reason=f"The end of {run}.")  # untranslated


def run_of(actor: Actor) -> BenchmarkRun:
    """Return the run that the actor's token speaks for. Raises NotAllowed, OutOfScope."""
    require(actor, Right.BENCHMARKS_LOAD)
    found = BenchmarkLoadToken.objects.filter(token=actor.token_id).first() if actor.token_id else None
    if found is None:
        raise NotAllowed(
            _("This token is of no benchmark run: use the one that its load generator was given.")
        )
    related = ("benchmark__scenario", "benchmark__cluster", "benchmark__team", "cell__version__model")
    run: BenchmarkRun = BenchmarkRun.objects.select_related(*related).get(pk=found.run_id)
    return run
