"""Tokens by which load generators in a cluster fetch their orders and hand in results: each of one run."""

from django.utils.translation import gettext as _

from accounts.states import Right
from benchmarks.deploying import ACTOR
from benchmarks.models import BenchmarkLoadToken, BenchmarkRun
from clusters.services.job_tokens import JobTokens
from common.actor import Actor

_TOKENS = JobTokens(BenchmarkLoadToken, Right.BENCHMARKS_LOAD, ACTOR)


def issue(run: BenchmarkRun, *, lives_seconds: float) -> str:
    """Return a token that speaks for this run. Raises FleetNameTaken."""
    benchmark = run.benchmark
    name = f"benchmark-{benchmark.pk}-{run.position}"
    return _TOKENS.issue(
        run, cluster=benchmark.cluster, team=benchmark.team, name=name, lives_seconds=lives_seconds
    )


def revoke(run: BenchmarkRun) -> None:
    _TOKENS.revoke(run, reason=f"The end of {run}.")  # untranslated


def run_of(actor: Actor) -> BenchmarkRun:
    """Return the run that the actor's token speaks for. Raises NotAllowed, OutOfScope."""
    refusal = _("This token is of no benchmark run: use the one that its load generator was given.")
    related = ("benchmark__scenario", "benchmark__cluster", "benchmark__team", "cell__version__model")
    run: BenchmarkRun = BenchmarkRun.objects.select_related(*related).get(
        pk=_TOKENS.run_id_of(actor, refusal=refusal)
    )
    return run
