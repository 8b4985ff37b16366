"""Tokens by which jobs in a cluster fetch their orders and hand in results: each of one run."""

from datetime import timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.services.tokens import revoke_of_part
from accounts.states import Right
from clusters.models import Cluster
from clusters.services.node_agents import issue_to_machines
from common.actor import Actor
from common.errors import NotAllowed
from optimization.models import OptimizationJobToken, OptimizationRun
from optimization.planning import ACTOR

SPARE = timedelta(hours=1)
"""For the start of its pod, beyond the time that the job may take."""


def issue(run: OptimizationRun, cluster: Cluster, *, lives_seconds: float) -> str:
    """Return a token that speaks for this run. Raises FleetNameTaken when a person has the name of the
    machines' account."""
    with transaction.atomic():
        issued = issue_to_machines(
            actor=ACTOR,
            cluster=cluster,
            name=f"optimization-{run.pk}",
            right=Right.OPTIMIZATIONS_RUN,
            lives=timedelta(seconds=lives_seconds) + SPARE,
            reason=f"{run}",
            team=run.team,
        )
        OptimizationJobToken.objects.create(run=run, token=issued.token)
    return issued.text


def revoke(run: OptimizationRun) -> None:
    rows = OptimizationJobToken.objects.filter(run=run, token__revoked_at=None)
    for one in rows.select_related("token__owner"):
        revoke_of_part(actor=ACTOR, token=one.token, reason=f"The end of a job of {run}.")  # untranslated


def run_of(actor: Actor) -> OptimizationRun:
    """Return the run that the actor's token speaks for. Raises NotAllowed, OutOfScope."""
    require(actor, Right.OPTIMIZATIONS_RUN)
    found = OptimizationJobToken.objects.filter(token=actor.token_id).first() if actor.token_id else None
    if found is None:
        raise NotAllowed(_("This token is of no optimised version: use the one that its job was given."))
    versions = ("parent", "child", "test_version", "calibration_version")
    rows = OptimizationRun.objects.select_related("team", *(f"{one}__model__team" for one in versions))
    run: OptimizationRun = rows.get(pk=found.run_id)
    return run
