from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from common import clock
from common.reconcile import Reconciled
from common.revisions import Revised
from gateway.models import default_release_header
from releases.adapter_models import ServiceAdapter as ServiceAdapter
from releases.approval_models import Approval as Approval
from releases.approval_models import ApprovalDelegation as ApprovalDelegation
from releases.environment_models import EnvironmentGraph as EnvironmentGraph
from releases.environment_models import EnvironmentStage as EnvironmentStage
from releases.indicator_models import PushedCount as PushedCount
from releases.indicator_models import ServiceIndicator as ServiceIndicator
from releases.messages import ReleaseMessage
from releases.plans.builtin import WARM_ROLLBACK
from releases.pod_patch_models import PodPatch as PodPatch
from releases.states import (
    FINAL,
    IN_MOTION,
    Halt,
    ReleaseHeader,
    ReleaseState,
    StepState,
    ThresholdSource,
    is_known,
)

if TYPE_CHECKING:
    from releases.summaries import ServiceSummary

service_name = RegexValidator(
    r"^[a-z]([a-z0-9-]{0,48}[a-z0-9])?$",
    "Use 1 to 50 lower-case letters, digits and hyphens, a letter first: it is part of the address.",
)


class ReleasePlanRows(TeamOwned["Plan"]):
    pass


class Plan(Revised):
    """A team's own release plan; the built-in ones are data in `releases.plans`."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    name = models.SlugField(max_length=60)
    description = models.CharField(max_length=300, blank=True)
    body = models.JSONField()
    """What `releases.plans.Plan` reads."""
    hash = models.CharField(max_length=64)
    changed_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField(default=clock.now)

    objects = ReleasePlanRows.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["team", "name"], name="plan_name_in_team")]

    def __str__(self) -> str:
        return self.name


class TeamPolicyRows(TeamOwned["TeamPolicy"]):
    pass


class TeamPolicy(Revised):
    """The least that every release of a team's services must go through."""

    team = models.OneToOneField("accounts.Team", on_delete=models.CASCADE, related_name="+")
    body = models.JSONField()
    """What `releases.policy.ReleasePolicy` reads."""
    changed_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField(default=clock.now)

    objects = TeamPolicyRows.as_manager()

    def __str__(self) -> str:
        return f"release policy of {self.team}"


class ServiceRows(TeamOwned["Service"]):
    pass


class Service(Revised):
    """An address behind the gateway, and the version that answers there."""

    team = models.ForeignKey("accounts.Team", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=50, unique=True, validators=[service_name])
    description = models.CharField(max_length=300, blank=True)
    model = models.ForeignKey("models_registry.Model", on_delete=models.PROTECT, related_name="+")
    alias = models.CharField(max_length=95, blank=True)
    """An alias of the model that a promotion moves to the promoted version; blank: none."""
    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.PROTECT, related_name="+")
    cluster_rule = models.JSONField(null=True, blank=True, editable=False)
    """By which the cluster was chosen (`clusters.choosing.ClusterRequirements`); None: it was named."""
    cluster_choice = models.JSONField(default=list, blank=True, editable=False)
    """What spoke for and against each cluster then, the chosen one first: `{cluster, fits, says}`."""
    engine = models.CharField(max_length=30)
    replicas = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(100)]
    )
    slots = models.PositiveSmallIntegerField(
        default=4, validators=[MinValueValidator(1), MaxValueValidator(1024)]
    )
    """Requests that one worker answers at the same time."""
    device = models.CharField(max_length=20, default="auto")
    resources = models.JSONField(default=dict, blank=True)
    pod = models.JSONField(default=dict, blank=True)
    """How its workers' pods look: `clusters.backends.pod_settings.PodSettings`."""
    settings = models.JSONField(default=dict, blank=True)
    image = models.ForeignKey(
        "images.RuntimeImage", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    """The one that its releases run; None: each picks the one that fits best."""
    release_header = models.CharField(
        max_length=10, choices=ReleaseHeader.choices, default=default_release_header
    )
    sealed_release_key = models.TextField(blank=True)
    """What clients send as `x-release-key`, where `release_header` asks for it."""
    plan_name = models.CharField(max_length=60, default="canary")
    """The plan that a release follows when its request names none; no release may demand less than it."""
    policy = models.JSONField(null=True, blank=True)
    """What its releases must go through besides (`releases.policy.ReleasePolicy`); None: nothing more."""
    policy_replaces_team = models.BooleanField(default=False)
    """Whether its own policy stands in for the team's, which demands more."""
    stable_version = models.ForeignKey(
        "models_registry.Version", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    stable_deployment = models.CharField(max_length=100, blank=True)
    stable_since = models.DateTimeField(null=True, blank=True)
    automation_paused_by = models.CharField(max_length=200, blank=True, db_default="", editable=False)
    """Who rolled it back by hand: no release starts by itself until a person resumes; empty: they start."""
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=clock.now)

    objects = ServiceRows.as_manager()

    summary: "ServiceSummary"
    """Set by `selectors.summarised`."""

    def __str__(self) -> str:
        return self.name


class ReleaseRows(TeamOwned["Release"]):
    pass


class Release(Reconciled):
    """A version on its way to all of a service's traffic, following the plan that it started with."""

    service = models.ForeignKey(Service, on_delete=models.PROTECT, related_name="+")
    team = models.ForeignKey("accounts.Team", on_delete=models.PROTECT, related_name="+")
    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    from_version = models.ForeignKey(
        "models_registry.Version", on_delete=models.PROTECT, null=True, related_name="+"
    )
    """The stable version when the release started; None for a service's first."""
    undoes = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+")
    """The promoted release that this one takes back."""
    image = models.ForeignKey(
        "images.RuntimeImage", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    """Named for this release; None: as the service says."""
    plan_name = models.CharField(max_length=60)
    plan = models.JSONField()
    plan_hash = models.CharField(max_length=64)
    policy = models.JSONField(default=dict)
    """What was demanded of it when it started (`releases.policy.ReleasePolicy`)."""
    shortfalls = models.JSONField(default=list)
    """What its plan lacked of that (`releases.policy.PolicyTerm`), and was let pass."""
    bypass_reason = models.TextField(blank=True)
    """Why the requester let it pass; empty for a rollback, of which no policy demands anything."""
    state = models.CharField(max_length=20, choices=ReleaseState.choices, default=ReleaseState.PENDING)
    step_index = models.PositiveSmallIntegerField(default=0)
    phase = models.CharField(max_length=30, blank=True)
    """Where within its step, or within its rollback, the release stands."""
    progress = models.JSONField(default=dict)
    """What the present step has gathered so far."""
    requested_by = models.ForeignKey("accounts.User", on_delete=models.SET_NULL, null=True, related_name="+")
    requester = models.CharField(max_length=200)
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now)
    ended_at = models.DateTimeField(null=True)
    outcome = models.TextField(blank=True)
    """Why it ended, or is ending, as it does; in English, or a person's words."""
    outcome_message = models.JSONField(null=True)
    """The kinds and values that `outcome` was made of (`releases.messages`); None: it is a person's."""

    stable_deployment = models.CharField(max_length=100, blank=True)
    candidate_deployment = models.CharField(max_length=100, blank=True)
    candidate_percent = models.PositiveSmallIntegerField(default=0)

    halt = models.CharField(max_length=10, choices=Halt.choices, blank=True)
    """The wish, or the judge's verdict, to give up; outranks everything else."""
    halted_by = models.CharField(max_length=200, blank=True)
    halted_at = models.DateTimeField(null=True)
    paused_by = models.CharField(max_length=200, blank=True)
    paused_at = models.DateTimeField(null=True)
    paused_from = models.CharField(max_length=20, blank=True)
    stuck_from = models.CharField(max_length=20, blank=True)
    freeze_override = models.TextField(blank=True, db_default="")
    """Why it goes on in spite of the freezes of that time; empty: all hold it."""
    freeze_overridden_by = models.CharField(max_length=200, blank=True, db_default="")
    freeze_overridden_at = models.DateTimeField(null=True)
    """Freezes that were made later hold it all the same."""
    disturbed_at = models.DateTimeField(null=True)
    """When it was last told that a machine of its workers leaves service; None: it is judged as usual."""
    disturbance = models.JSONField(default=dict)
    """`{node, machine, why, url, since}` of that machine (`releases.services.machines`)."""

    baseline = models.JSONField(default=dict)
    """The bound in ms above which a request counts as slow, and the counts of the last look."""
    bake_until = models.DateTimeField(null=True)
    """Until when the workers of the version that it replaced stay up, without traffic; None: they do not."""
    evidence = models.JSONField(default=dict)
    """What `releases.judge.Evidence` reads."""

    objects = ReleaseRows.as_manager()

    class Meta(Reconciled.Meta):
        indexes: ClassVar = [
            *Reconciled.Meta.indexes,
            models.Index(fields=["service", "-created_at"], name="release_of_service"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["service"], condition=Q(state__in=IN_MOTION), name="one_release_in_motion"
            )
        ]

    def __str__(self) -> str:
        return f"{self.service} {self.version}"

    @property
    def in_motion(self) -> bool:
        """Also of one in a state that only a newer release of Slipway knows."""
        return self.state not in FINAL

    @property
    def is_known_here(self) -> bool:
        return is_known(self.state) and self.halt in ("", *Halt.values)

    @property
    def told_outcome(self) -> ReleaseMessage:
        return ReleaseMessage.kept(self.outcome, self.outcome_message)

    @property
    def told_end(self) -> str:
        """Why it ended; of a promoted one whose version serves no longer, that it did."""
        if self.superseded_by_id is None:
            return str(self.told_outcome)
        names = {"version": self.version, "service": self.service}
        return _("%(version)s was promoted, and served all traffic of %(service)s until then.") % names

    @property
    def is_warm(self) -> bool:
        """Whether it takes over workers that another release had started, so that none have to load."""
        return self.plan_name == WARM_ROLLBACK and self.undoes_id is not None

    @cached_property
    def superseded_by_id(self) -> int | None:
        """The next release that was promoted on the service; None while this one's version serves.

        Lists read it, and `undone_by_id`, with their rows: `releases.succession`.
        """
        return self._first_promoted(service=self.service_id, pk__gt=self.pk)

    @cached_property
    def undone_by_id(self) -> int | None:
        """The promoted release that took this one back."""
        return self._first_promoted(undoes=self.pk)

    @property
    def standing(self) -> str:
        """Its state; of a promoted one whose version was replaced, `superseded` or `undone`."""
        if self.state != ReleaseState.PROMOTED or self.superseded_by_id is None:
            return self.state
        return "undone" if self.undone_by_id is not None else "superseded"

    def _first_promoted(self, **where: Any) -> int | None:
        if self.state != ReleaseState.PROMOTED:
            return None
        rows = Release.objects.filter(state=ReleaseState.PROMOTED, **where).order_by("pk")
        return rows.values_list("pk", flat=True).first()


class ReleaseStep(models.Model):
    """A step of a release's plan, as it went."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=20)
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=StepState.choices, default=StepState.PENDING)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    actor = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict)
    """What it has gathered, and as `note` how it went, in English."""
    message = models.JSONField(null=True)
    """The kinds and values that its note was made of (`releases.messages`)."""

    class Meta:
        ordering: ClassVar = ["index"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["release", "index"], name="release_step_once")
        ]

    def __str__(self) -> str:
        return f"{self.index + 1}. {self.title}"

    @property
    def told(self) -> ReleaseMessage:
        return ReleaseMessage.kept(self.detail.get("note", ""), self.message)


class ReleaseMove(models.Model):
    """The history of a release: one row per move of its state."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="moves")
    at = models.DateTimeField(default=clock.now)
    before = models.CharField(max_length=20)
    after = models.CharField(max_length=20)
    actor = models.CharField(max_length=200)
    note = models.TextField(blank=True)
    """In English, or a person's words."""
    message = models.JSONField(null=True)
    """The kinds and values that the note was made of (`releases.messages`); None: it is a person's."""

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}"

    @property
    def told(self) -> ReleaseMessage:
        return ReleaseMessage.kept(self.note, self.message)


class EvidencePoint(models.Model):
    """A point of the judge's curve: what was known at a moment, kept for the page and for the record."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="points")
    at = models.DateTimeField()
    curve = models.JSONField()

    class Meta:
        ordering: ClassVar = ["at"]
        indexes: ClassVar = [models.Index(fields=["release", "at"], name="point_of_release")]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S}"


class SlowThreshold(models.Model):
    """The time above which an answer of the service is slow: its newest row. Learnt, or set by a person."""

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="+")
    release = models.ForeignKey(Release, on_delete=models.SET_NULL, null=True, related_name="+")
    """In which it was learnt; None: a person has set it."""
    milliseconds = models.FloatField()
    source = models.CharField(max_length=10, choices=ThresholdSource.choices)
    requests = models.PositiveIntegerField(default=0)
    """Healthy answers of stable that it was learnt from."""
    by = models.CharField(max_length=200)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"{self.milliseconds:g} ms"
