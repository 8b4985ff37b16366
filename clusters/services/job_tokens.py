"""Tokens by which jobs in a cluster fetch their orders and hand in results: each of one run."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from accounts.models import Team
from accounts.services.rights import require
from accounts.services.tokens import revoke_of_part
from accounts.states import Right
from clusters.models import Cluster
from clusters.services.node_agents import issue_to_machines
from common.actor import Actor
from common.errors import NotAllowed

SPARE = timedelta(hours=1)
"""For the start of its pod, beyond the time that the job may take."""


@dataclass(frozen=True, slots=True)
class JobTokens:
    """Tokens of the runs of one app. `model`: a `BoundToken` with a `run`."""

    model: type[Any]
    right: Right
    actor: Actor

    def issue(self, run: Any, *, cluster: Cluster, team: Team, name: str, lives_seconds: float) -> str:
        """Return a token that speaks for this run. Raises FleetNameTaken when a person has the name of the
        machines' account."""
        with transaction.atomic():
            issued = issue_to_machines(
                actor=self.actor,
                cluster=cluster,
                name=name,
                right=self.right,
                lives=timedelta(seconds=lives_seconds) + SPARE,
                reason=f"{run}",
                team=team,
            )
            self.model.objects.create(run=run, token=issued.token)
        return issued.text

    def revoke(self, run: Any, *, reason: str) -> None:
        rows = self.model.objects.filter(run=run, token__revoked_at=None)
        for one in rows.select_related("token__owner"):
            revoke_of_part(actor=self.actor, token=one.token, reason=reason)

    def run_id_of(self, actor: Actor, *, refusal: str) -> int:
        """Return the id of the run that the actor's token speaks for. Raises NotAllowed, OutOfScope."""
        require(actor, self.right)
        found = self.model.objects.filter(token=actor.token_id).first() if actor.token_id else None
        if found is None:
            raise NotAllowed(refusal)
        return int(found.run_id)
