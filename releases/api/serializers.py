"""What services, plans and releases look like over REST."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases import bake, selectors
from releases.api import examples
from releases.models import Plan, Release, ReleaseMove, ReleaseStep, Service, SlowThreshold, TeamPolicy
from releases.policy import APPROVALS, ROLES
from releases.states import Decision, ReleaseHeader, ReleaseState, StepState
from serving.protocol import DEVICES, ENGINES


class SharesSerializer(serializers.Serializer[Any]):
    """Percent of the traffic, 0..100."""

    stable = serializers.FloatField(allow_null=True)
    candidate = serializers.FloatField(allow_null=True)


class WeightsSerializer(serializers.Serializer[Any]):
    desired = SharesSerializer()
    observed = SharesSerializer(
        help_text="What the gateway really routed in the present step; null while nothing was measured."
    )
    requests = serializers.IntegerField(help_text="Requests that `observed` rests on.")
    interval_percent = serializers.ListField(
        child=serializers.FloatField(),
        allow_null=True,
        help_text="Where chance allows the candidate's share to lie (99.9 %).",
    )


class PolicySerializer(serializers.Serializer[Any]):
    """What a release must go through at least."""

    approval = serializers.ChoiceField(
        choices=APPROVALS,
        required=False,
        help_text="another_person: not the one who started the release.",
    )
    role = serializers.ChoiceField(choices=ROLES, required=False, help_text="The approver's, in the team.")
    approvers = serializers.ListField(
        child=serializers.CharField(max_length=150),
        max_length=50,
        required=False,
        allow_null=True,
        help_text="People one of whom must approve; null: whoever has the right.",
    )
    percent_before_approval = serializers.IntegerField(
        min_value=1, max_value=99, required=False, help_text="The candidate's traffic before it, at most."
    )
    judge = serializers.BooleanField(required=False, help_text="The candidate must be judged.")
    plans = serializers.ListField(
        child=serializers.CharField(max_length=150),
        max_length=50,
        required=False,
        allow_null=True,
        help_text="Names of the plans that are allowed; null: any.",
    )


@example(examples.SERVICE)
class ServiceSerializer(serializers.ModelSerializer[Service]):
    team = serializers.CharField(source="team.name")
    model = serializers.CharField(source="model.name")
    cluster = serializers.CharField(source="cluster.name")
    image = serializers.CharField(
        source="image.name",
        default=None,
        allow_null=True,
        help_text="Its releases run this runtime image; null: each the one that fits best.",
    )
    plan = serializers.CharField(source="plan_name")
    policy = PolicySerializer(
        allow_null=True, help_text="What its releases must go through besides what team and plan demand."
    )
    state = serializers.ChoiceField(choices=selectors.SERVICE_STATES, source="summary.state")
    reason = serializers.CharField(
        source="summary.reason", help_text="Why it is degraded, failing or down; empty when nothing is wrong."
    )
    stable = serializers.CharField(source="summary.stable", allow_null=True, help_text="`model:version`")
    candidate = serializers.CharField(source="summary.candidate", allow_null=True)
    release_in_motion = serializers.IntegerField(source="summary.release_id", allow_null=True)
    release_header = serializers.ChoiceField(
        choices=ReleaseHeader.choices,
        read_only=True,
        help_text="From whom `x-release: canary` or `stable` is taken while a release runs.",
    )
    weights = WeightsSerializer(source="summary.weights")
    url = serializers.CharField(source="summary.url", help_text="Where its clients reach it.")

    class Meta:
        model = Service
        fields = (
            "name",
            "team",
            "description",
            "model",
            "alias",
            "cluster",
            "engine",
            "replicas",
            "slots",
            "device",
            "resources",
            "settings",
            "image",
            "plan",
            "policy",
            "policy_replaces_team",
            "state",
            "reason",
            "stable",
            "stable_since",
            "candidate",
            "release_in_motion",
            "release_header",
            "weights",
            "url",
            "created_by",
            "created_at",
        )


@example(examples.RELEASE_HEADER)
class ReleaseHeaderSerializer(serializers.Serializer[Any]):
    release_header = serializers.ChoiceField(
        choices=ReleaseHeader.choices, help_text="`secret` makes a new key; one made before holds no longer."
    )
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.RELEASE_KEY)
class ReleaseKeySerializer(serializers.Serializer[Any]):
    release_header = serializers.ChoiceField(choices=ReleaseHeader.choices)
    release_key = serializers.CharField(
        allow_null=True, help_text="To be sent as `x-release-key`. It is shown this once; null without one."
    )


class TrafficQuerySerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField(
        required=False, help_text="From when on; else the last hour. Readings are kept for 24 h."
    )
    until = serializers.DateTimeField(required=False, help_text="Until when; else now.")
    step_seconds = serializers.IntegerField(
        required=False,
        min_value=60,
        max_value=3600,
        help_text="About how long a point lasts; else 60 for an hour, 300 for six, 900 for more.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        until = attrs.setdefault("until", timezone.now())
        since = attrs.setdefault("since", until - timedelta(hours=1))
        if since >= until:
            raise serializers.ValidationError({"since": [_("It must lie before `until`.")]})
        return attrs


class VersionTrafficSerializer(serializers.Serializer[Any]):
    """What one version answered; requests that forced a side with `x-release` are left out."""

    deployment = serializers.CharField()
    version = serializers.CharField(allow_null=True, help_text="`model:version`")
    requests = serializers.IntegerField()
    errors = serializers.IntegerField(  # type: ignore[assignment]
        help_text="Those of `requests` answered 500-599 or cut off midway."
    )
    abandoned = serializers.IntegerField(help_text="Clients that left before any answer; not in `requests`.")
    requests_per_s = serializers.FloatField()
    error_share = serializers.FloatField(allow_null=True, help_text="0..1; null without requests.")
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    first_byte_p95_ms = serializers.FloatField(
        allow_null=True, help_text="Time to first token, where the worker streams."
    )


class TrafficPointSerializer(serializers.Serializer[Any]):
    began_at = serializers.DateTimeField()
    at = serializers.DateTimeField(help_text="When it ended.")
    versions = VersionTrafficSerializer(
        many=True, allow_null=True, help_text="null: not known, nobody counted or the gateway restarted."
    )


@example(examples.TRAFFIC)
class TrafficSerializer(serializers.Serializer[Any]):
    service = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    step_seconds = serializers.IntegerField()
    points = TrafficPointSerializer(many=True)


class ThresholdSerializer(serializers.Serializer[Any]):
    milliseconds = serializers.FloatField()
    source = serializers.ChoiceField(  # type: ignore[assignment]
        choices=["plan", "learnt", "person"],
        help_text="The plan's objective; learnt from stable's healthy traffic; set by a person.",
    )
    requests = serializers.IntegerField(help_text="Healthy answers of stable that were looked at.")
    measured_ms = serializers.FloatField(allow_null=True, help_text="What they show; null: they are too few.")
    previous_ms = serializers.FloatField(allow_null=True, help_text="The service's threshold before.")
    is_held = serializers.BooleanField(
        help_text="Stable is much slower than it; it stays as it was until a person sets another."
    )


@example(examples.SLOW_THRESHOLD)
class SlowThresholdSerializer(serializers.ModelSerializer[SlowThreshold]):
    release = serializers.IntegerField(
        source="release_id", allow_null=True, help_text="In which it was learnt; null: a person has set it."
    )

    class Meta:
        model = SlowThreshold
        fields = ("milliseconds", "source", "requests", "release", "by", "reason", "at")


@example(examples.NEW_SLOW_THRESHOLD)
class NewSlowThresholdSerializer(serializers.Serializer[Any]):
    milliseconds = serializers.FloatField(
        min_value=1, max_value=320_000, help_text="Becomes the gateway's bound at or above it."
    )
    reason = serializers.CharField(max_length=MAX_REASON)


class _ServiceFields(serializers.Serializer[Any]):
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    alias = serializers.CharField(
        max_length=95, required=False, allow_blank=True, help_text="Alias that a promotion moves."
    )
    engine = serializers.ChoiceField(choices=ENGINES, required=False)
    replicas = serializers.IntegerField(min_value=1, max_value=100, required=False)
    slots = serializers.IntegerField(
        min_value=1, max_value=1024, required=False, help_text="Requests that one worker answers at once."
    )
    device = serializers.ChoiceField(choices=DEVICES, required=False)
    resources = serializers.DictField(
        required=False, help_text="Of one worker: gpus_per_worker, a whole number (default 1)."
    )
    settings = serializers.DictField(required=False, help_text="Settings of the engine.")
    image = serializers.CharField(
        max_length=95,
        required=False,
        allow_null=True,
        help_text="The runtime image that its releases run; null: each picks the one that fits best.",
    )
    plan = serializers.CharField(max_length=63, required=False, help_text="Plan of its releases.")


@example(examples.NEW_SERVICE)
class NewServiceSerializer(_ServiceFields):
    name = serializers.CharField(max_length=50)
    team = serializers.CharField(max_length=63, required=False, help_text="Else the model's.")
    model = serializers.CharField(max_length=95)
    version = serializers.CharField(
        max_length=95, help_text="The first version: its name, a digest's beginning, or an alias."
    )
    cluster = serializers.CharField(max_length=63, default="local")


@example(examples.SERVICE_CHANGE)
class ServiceChangeSerializer(_ServiceFields):
    policy = PolicySerializer(required=False, allow_null=True)
    policy_replaces_team = serializers.BooleanField(
        required=False, help_text="Its policy stands in for the team's; setting it takes `releases.bypass`."
    )
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Needed when its releases would have to go through less than before.",
    )


@example(examples.TEAM_POLICY)
class TeamPolicySerializer(serializers.ModelSerializer[TeamPolicy]):
    team = serializers.CharField(source="team.name")
    policy = PolicySerializer(source="body")

    class Meta:
        model = TeamPolicy
        fields = ("team", "policy", "changed_by", "changed_at")


@example(examples.TEAM_POLICY_CHANGE)
class TeamPolicyChangeSerializer(serializers.Serializer[Any]):
    policy = PolicySerializer(help_text="The whole of it: what is left out demands nothing.")
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Needed when it demands less than before.",
    )


class WayBackSerializer(serializers.Serializer[Any]):
    warm_workers = serializers.IntegerField(help_text="Ready without traffic; 0: workers must start first.")
    seconds = serializers.FloatField(
        allow_null=True, help_text="How long a start took; null: no time, or unknown."
    )


class BypassSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(source="bypass_reason")
    lacks = serializers.SerializerMethodField(help_text="What the plan lacked of what was demanded.")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_lacks(self, release: Release) -> Any:
        return [str(term) for term in selectors.shortfalls_of(release)]


class StepSerializer(serializers.ModelSerializer[ReleaseStep]):
    state = serializers.ChoiceField(choices=StepState.choices)

    class Meta:
        model = ReleaseStep
        fields = ("index", "kind", "title", "state", "started_at", "ended_at", "actor", "detail")


class WaitingForSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=["approval", "person"])
    right = serializers.CharField(help_text="The right that is needed to answer.")
    role = serializers.CharField(allow_null=True)
    separate_requester = serializers.BooleanField()
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    why = serializers.CharField()


class ApprovalSerializer(serializers.Serializer[Any]):
    step_index = serializers.IntegerField()
    decision = serializers.ChoiceField(choices=Decision.choices)
    by = serializers.CharField(source="by.username")
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    plan_hash = serializers.CharField()


class PlanReferenceSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    hash = serializers.CharField(help_text="sha256 of the plan that this release started with.")


@example(examples.RELEASE_ROW)
class ReleaseRowSerializer(serializers.ModelSerializer[Release]):
    """A release in a list."""

    service = serializers.CharField(source="service.name")
    team = serializers.CharField(source="team.name")
    model = serializers.CharField(source="service.model.name")
    version = serializers.CharField(help_text="`model:version`")
    from_version = serializers.CharField(default=None, allow_null=True)
    state = serializers.ChoiceField(choices=ReleaseState.choices)
    plan = serializers.SerializerMethodField()
    superseded_by = serializers.IntegerField(
        source="superseded_by_id",
        allow_null=True,
        help_text="The release that was promoted after this one; null unless promoted, and while it serves.",
    )
    undone_by = serializers.IntegerField(
        source="undone_by_id", allow_null=True, help_text="The promoted release that rolled this one back."
    )
    bake_until = serializers.DateTimeField(
        allow_null=True,
        help_text="Until when the workers of the version before are kept warm, without traffic: a rollback "
        "moves only the weight; null: they are not.",
    )
    url = serializers.SerializerMethodField(help_text="The page in the console.")

    class Meta:
        model = Release
        fields: tuple[str, ...] = (
            "id",
            "service",
            "team",
            "model",
            "version",
            "from_version",
            "state",
            "plan",
            "requester",
            "reason",
            "outcome",
            "created_at",
            "ended_at",
            "superseded_by",
            "undone_by",
            "bake_until",
            "url",
        )

    @extend_schema_field(PlanReferenceSerializer)
    def get_plan(self, release: Release) -> Any:
        return {"name": release.plan_name, "hash": release.plan_hash}

    @extend_schema_field(serializers.CharField())
    def get_url(self, release: Release) -> str:
        return selectors.page_of(release)


@example(examples.RELEASE)
class ReleaseSerializer(ReleaseRowSerializer):
    steps = StepSerializer(many=True)
    weights = serializers.SerializerMethodField()
    verdict = serializers.SerializerMethodField(
        help_text="The judge's, as of the last look; null before the first."
    )
    slow_threshold = serializers.SerializerMethodField(
        help_text="From when on its judge calls an answer slow, and how that is known; null before it is."
    )
    waiting_for = serializers.SerializerMethodField(help_text="What a person must do; null when nobody must.")
    approvals = ApprovalSerializer(many=True)
    halted_by = serializers.CharField(help_text="Who gave it up; empty: nobody has.")
    paused_by = serializers.CharField(help_text="Who wants it to stay as it is; empty: nobody does.")
    undoes = serializers.IntegerField(source="undoes_id", allow_null=True)
    way_back = serializers.SerializerMethodField(
        help_text="What rolling it back takes; null unless it was promoted and its version still serves."
    )
    bypassed = serializers.SerializerMethodField(
        help_text="Why it was let past the release policy, and what its plan lacked of that; null: nothing."
    )
    image = serializers.CharField(
        source="image.name",
        default=None,
        allow_null=True,
        help_text="The runtime image that was named for it; null: as the service says. "
        "What its workers run stands in its deployment.",
    )
    last_error = serializers.CharField(help_text="Why the last attempt at the present step failed.")

    class Meta(ReleaseRowSerializer.Meta):
        fields = (
            *ReleaseRowSerializer.Meta.fields,
            "steps",
            "weights",
            "verdict",
            "slow_threshold",
            "waiting_for",
            "approvals",
            "halted_by",
            "paused_by",
            "undoes",
            "way_back",
            "bypassed",
            "image",
            "last_error",
        )

    @extend_schema_field(WayBackSerializer(allow_null=True))
    def get_way_back(self, release: Release) -> Any:
        serves = release.state == ReleaseState.PROMOTED and release.superseded_by_id is None
        return WayBackSerializer(bake.way_back(release)).data if serves and release.from_version_id else None

    @extend_schema_field(BypassSerializer(allow_null=True))
    def get_bypassed(self, release: Release) -> Any:
        return BypassSerializer(release).data if release.shortfalls else None

    @extend_schema_field(WeightsSerializer)
    def get_weights(self, release: Release) -> Any:
        return selectors.weights(release)

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_verdict(self, release: Release) -> Any:
        verdict = selectors.verdict_of(release)
        return None if verdict is None else verdict.to_dict()

    @extend_schema_field(ThresholdSerializer(allow_null=True))
    def get_slow_threshold(self, release: Release) -> Any:
        found = selectors.threshold_of(release)
        return None if found is None else ThresholdSerializer(found).data

    @extend_schema_field(WaitingForSerializer(allow_null=True))
    def get_waiting_for(self, release: Release) -> Any:
        waiting = selectors.waiting_for_what(release)
        if waiting is None or (waiting.kind == "approval" and _is_answered(release)):
            return None
        return WaitingForSerializer(waiting).data


def _is_answered(release: Release) -> bool:
    """A person has spoken on the present step; the release has not yet gone on."""
    return any(word.step_index == release.step_index for word in release.approvals.all())


@example(examples.NEW_RELEASE)
class NewReleaseSerializer(serializers.Serializer[Any]):
    service = serializers.CharField(max_length=50)
    version = serializers.CharField(
        max_length=191, help_text="A version of the service's model, or `model:version`."
    )
    model = serializers.CharField(max_length=95, required=False, help_text="Checked against the service's.")
    plan = serializers.CharField(
        max_length=63, required=False, allow_blank=True, help_text="Empty: the service's."
    )
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)
    image = serializers.CharField(
        max_length=95, required=False, allow_null=True, help_text="Runtime image; null: as the service says."
    )
    bypass = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Why it may be released though its plan falls short of the release policy; takes the right "
        "`releases.bypass`.",
    )


@extend_schema_serializer(component_name="RequiredReason")
@example(examples.REASON)
class ReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, help_text="Why; kept in the record.")


@example(examples.REASON)
class OptionalReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True, default="")


@example(examples.PLAN)
class PlanSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="null: built in."
    )
    description = serializers.CharField()
    body = serializers.DictField(help_text="The plan itself; its JSON schema is at `plans/schema/`.")
    hash = serializers.CharField()
    summary = serializers.SerializerMethodField(help_text="The steps in words.")
    changed_by = serializers.CharField(default="", allow_blank=True)
    changed_at = serializers.SerializerMethodField(help_text="null: built in.")

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_changed_at(self, plan: Plan) -> Any:
        return plan.changed_at if plan.team_id else None

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_summary(self, plan: Plan) -> Any:
        return selectors.summary(plan)


@example(examples.NEW_PLAN)
class NewPlanSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    team = serializers.CharField(max_length=63, required=False)
    body = serializers.DictField(help_text="`steps`, and `judge` where it differs from the default.")
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Needed for a name that a release policy names.",
    )


@example(examples.PLAN_CHANGE)
class PlanChangeSerializer(serializers.Serializer[Any]):
    body = serializers.DictField()
    team = serializers.CharField(max_length=63, required=False)
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Needed when a service uses it and it would demand less of releases than before.",
    )


class MoveSerializer(serializers.ModelSerializer[ReleaseMove]):
    class Meta:
        model = ReleaseMove
        fields = ("id", "at", "before", "after", "actor", "note")
