from dataclasses import replace
from typing import Any, ClassVar

from django.db import models

from common import clock
from common.revisions import Revised
from gpu_health.healing.limits import HealingLimits
from gpu_health.models.incidents import Incident
from gpu_health.policy.presets import DEFAULT
from gpu_health.states import (
    HealingMode,
)

TWO_PEOPLE = "two_people"


class HealingPool(models.Model):
    """Machines that stand for each other. Whoever takes a slot of a pool holds its row meanwhile."""

    name = models.CharField(max_length=200, unique=True)
    serial = models.PositiveBigIntegerField(default=0, editable=False)
    breaker_opened_at = models.DateTimeField(null=True, editable=False)
    breaker_reason = models.TextField(blank=True, editable=False)
    breaker_reset_at = models.DateTimeField(null=True, editable=False)
    """When a person last closed it: cordons of before count for it no more."""

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class HealingSlot(models.Model):
    """The licence to drain and repair one machine of a pool. There are as many as the pool's limits say."""

    pool = models.ForeignKey(HealingPool, on_delete=models.CASCADE, related_name="slots")
    number = models.PositiveIntegerField()
    incident = models.OneToOneField(Incident, on_delete=models.CASCADE, related_name="slot")
    taken_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["pool", "number"], name="gpu_healing_slot_once")
        ]
        ordering: ClassVar = ["pool", "number"]

    def __str__(self) -> str:
        return f"{self.pool} {self.number}"


class HealingPolicy(Revised):
    """Whether healing acts, and within which limits; one row, or none while nobody has changed anything."""

    ONLY = 1

    mode = models.CharField(max_length=10, choices=HealingMode.choices, default=HealingMode.DRY_RUN)
    preset = models.CharField(max_length=40, default=DEFAULT)
    """Of rules, from which the installation starts."""
    cluster_presets = models.JSONField(default=dict, blank=True)
    """By names of clusters, where it is another one."""
    dry_clusters = models.JSONField(default=list, blank=True)
    """Names of clusters in which nothing is done, whatever the mode."""
    windows = models.JSONField(default=list, blank=True)
    """`{start, end, days, time_zone}` each, see `gpu_health.healing.guards`; none: at any time."""
    drain = models.JSONField(default=dict, blank=True)
    """Of `DrainOptions`, what differs for drains by healing: `namespaces`, `grace_seconds` and the like."""
    limits = models.JSONField(default=dict, blank=True)
    """What differs from the defaults of `gpu_health.healing.limits`."""
    two_people = models.BooleanField(default=False)
    """A change of what takes an approval, and the approval that it permits, are two people's."""
    approval_changes = models.JSONField(default=dict, editable=False)
    """By action (or `two_people`): `{by, user, waits}`, who changed whether it takes an approval. `waits`: it
    takes one still, until somebody else asks for the same."""
    held_changes = models.JSONField(default=dict, editable=False)
    """`{by, user, to, until}` of what somebody has asked for and waits for a second person, by name: `mode`,
    `limits.slots_percent`, `rule:NAME`."""
    kill_switch_at = models.DateTimeField(null=True, editable=False)
    kill_switch_by = models.CharField(max_length=200, blank=True, editable=False)
    kill_switch_reason = models.TextField(blank=True, editable=False)

    def __str__(self) -> str:
        return "healing policy"

    @property
    def is_stopped(self) -> bool:
        return self.kill_switch_at is not None

    @property
    def figures(self) -> HealingLimits:
        """The limits in force."""
        limits = HealingLimits.of(self.limits)
        kept = [one for one in self.waiting_approvals if one not in (TWO_PEOPLE, *limits.approved_actions)]
        return replace(limits, approved_actions=(*limits.approved_actions, *kept)) if kept else limits

    @property
    def needs_two_people(self) -> bool:
        return self.two_people or TWO_PEOPLE in self.waiting_approvals

    @property
    def waiting_approvals(self) -> dict[str, str]:
        """Actions that somebody asked to need no approval, and who did."""
        return {name: change["by"] for name, change in self.approval_changes.items() if change["waits"]}

    @property
    def asked_changes(self) -> dict[str, dict[str, Any]]:
        """The `held_changes` whose time is not up."""
        now = clock.now().timestamp()
        return {name: change for name, change in self.held_changes.items() if change["until"] > now}

    @property
    def waiting_changes(self) -> dict[str, str]:
        """Changes that a second person has not asked for yet, with the person who asked first."""
        return self.waiting_approvals | {name: change["by"] for name, change in self.asked_changes.items()}
