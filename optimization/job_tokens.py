"""Tokens by which recipes' jobs in a cluster fetch their orders and hand in results: each of one run."""

from django.utils.translation import gettext as _

from accounts.states import Right
from clusters.models import Cluster
from clusters.services.job_tokens import JobTokens
from common.actor import Actor
from optimization.models import OptimizationJobToken, OptimizationRun
from optimization.planning import ACTOR

_TOKENS = JobTokens(OptimizationJobToken, Right.OPTIMIZATIONS_RUN, ACTOR)


def issue(run: OptimizationRun, cluster: Cluster, *, lives_seconds: float) -> str:
    """Return a token that speaks for this run. Raises FleetNameTaken."""
    name = f"optimization-{run.pk}"
    return _TOKENS.issue(run, cluster=cluster, team=run.team, name=name, lives_seconds=lives_seconds)


def revoke(run: OptimizationRun) -> None:
    _TOKENS.revoke(run, reason=f"The end of a job of {run}.")  # untranslated


def run_of(actor: Actor) -> OptimizationRun:
    """Return the run that the actor's token speaks for. Raises NotAllowed, OutOfScope."""
    refusal = _("This token is of no optimised version: use the one that its job was given.")
    versions = ("parent", "child", "test_version", "calibration_version")
    rows = OptimizationRun.objects.select_related("team", *(f"{one}__model__team" for one in versions))
    run: OptimizationRun = rows.get(pk=_TOKENS.run_id_of(actor, refusal=refusal))
    return run
