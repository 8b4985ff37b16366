"""Changes of cards into MIG instances or MPS shares, and back: rows."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from capacity.models.pools import Pool
from capacity.states import BY_CLAIMS, OPEN_LAYOUTS, CardSharing, LayoutState
from common import clock
from common.reconcile import Reconciled


class LayoutRows(TeamOwned["CardLayout"]):
    team_path = "pool__team"


class CardLayout(Reconciled):
    """A layout that a card of a declared machine, or all cards of a machine of a cluster, gets."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="layouts")
    machine = models.CharField(max_length=253)
    card = models.PositiveSmallIntegerField(null=True)
    """None: all cards of the machine alike, as MIG manager and the device plugin divide them."""
    sharing = models.CharField(
        max_length=10, choices=CardSharing.choices, default=CardSharing.MIG, db_default=CardSharing.MIG
    )
    model = models.CharField(max_length=63)
    """As `capacity.planning.cards.GEOMETRY` names it; of MPS as the machine does."""
    instances = models.JSONField(default=list)
    """`{profile, begin, name}` of each instance on the card, of MPS `{profile, name, threads, memory_mib}` of
    each share; empty: the whole card."""
    before = models.JSONField(default=list)
    config = models.CharField(max_length=63, blank=True)
    """MIG manager's name of the layout, or `mps-N` for N shares; empty: the card is declared, and the layout
    simulated."""
    config_before = models.CharField(max_length=63, blank=True)
    drains = models.BooleanField(default=False)
    """Who holds the card is asked to leave it; else a card in use is refused."""
    state = models.CharField(max_length=20, choices=LayoutState.choices, default=LayoutState.DRAINING)
    state_since = models.DateTimeField(default=clock.now)
    problem = models.TextField(blank=True)
    was_cordoned = models.BooleanField(default=False)
    """Somebody had cordoned the machine before: it stays so."""
    reason = models.CharField(max_length=500, blank=True)
    decided_by = models.CharField(max_length=200)
    undoes = models.OneToOneField("self", on_delete=models.CASCADE, null=True, related_name="undone_by")
    created_at = models.DateTimeField(default=clock.now)
    ended_at = models.DateTimeField(null=True)

    objects = LayoutRows.as_manager()

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["pool", "machine"],
                condition=models.Q(state__in=OPEN_LAYOUTS),
                name="one_open_layout_of_machine",
            )
        ]

    def __str__(self) -> str:
        return _("Layout %(number)s of %(machine)s") % {"number": self.pk, "machine": self.machine}

    @property
    def is_simulated(self) -> bool:
        return not self.config

    @property
    def is_by_claims(self) -> bool:
        return self.config == BY_CLAIMS
