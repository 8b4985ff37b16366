"""What releases look like over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from clusters.api.serializers import FilesFetchSerializer
from common.api.examples import example
from common.audit import MAX_REASON
from gateway import selectors as gateway
from releases import bake
from releases.api import examples
from releases.api.serializers.traffic import ThresholdSerializer, WeightsSerializer
from releases.freezing import freeze_holding
from releases.models import Release, ReleaseMove, ReleaseStep
from releases.reconcilers.clock import StepClock, clock_of
from releases.selectors import releases as release_selectors
from releases.selectors.plans import shortfalls_of
from releases.selectors.releases import count_at_hand, page_of, threshold_of, verdict_of, waiting_for_what
from releases.states import ApprovalDecision, ReleaseState, StepState


class WayBackSerializer(serializers.Serializer[Any]):
    warm_workers = serializers.IntegerField(help_text="Workers kept warm; 0: workers must start first.")
    seconds = serializers.FloatField(
        allow_null=True, help_text="Estimated duration of the start; null: none, or unknown."
    )


class HeldSerializer(serializers.Serializer[Any]):
    machine = serializers.CharField()
    why = serializers.CharField()
    since = serializers.DateTimeField()


class ClockSerializer(serializers.Serializer[Any]):
    seconds = serializers.FloatField(
        help_text="How long both versions were counted and had a ready worker in this step."
    )
    candidate_requests = serializers.IntegerField(source="candidate", help_text="Answered in that time.")
    stable_requests = serializers.IntegerField(source="stable")
    stopped_since = serializers.SerializerMethodField(help_text="null: it runs.")
    why = serializers.CharField(source="why.text", help_text="Why it is stopped; empty: it runs.")

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_stopped_since(self, clock: StepClock) -> Any:
        return (clock.stalled_since or None) if clock.reason else None


class FrozenSerializer(serializers.Serializer[Any]):
    freeze = serializers.IntegerField(source="freeze.pk")
    name = serializers.CharField(source="freeze.name")
    reason = serializers.CharField(source="freeze.reason")
    until = serializers.DateTimeField(allow_null=True, help_text="null: no end is known.")


class BypassSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(source="bypass_reason")
    lacks = serializers.SerializerMethodField(
        help_text="Requirements of the policy that the plan did not meet."
    )

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_lacks(self, release: Release) -> Any:
        return [str(term) for term in shortfalls_of(release)]


class StepSerializer(serializers.ModelSerializer[ReleaseStep]):
    state = serializers.ChoiceField(choices=StepState.choices)

    class Meta:
        model = ReleaseStep
        fields = ("index", "kind", "title", "state", "started_at", "ended_at", "actor", "detail")


class WaitingForSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=["approval", "person"])
    right = serializers.CharField(help_text="Required right.")
    role = serializers.CharField(allow_null=True)
    separate_requester = serializers.BooleanField()
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    why = serializers.CharField()
    people = serializers.IntegerField(help_text="How many different people must approve.")


class ApprovalSerializer(serializers.Serializer[Any]):
    step_index = serializers.IntegerField()
    decision = serializers.ChoiceField(choices=ApprovalDecision.choices)
    by = serializers.CharField(source="by.username")
    on_behalf_of = serializers.CharField(
        source="on_behalf_of.username",
        default=None,
        allow_null=True,
        help_text="Who is away and has delegated it to that person.",
    )
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    plan_hash = serializers.CharField()


class PlanReferenceSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    hash = serializers.CharField(help_text="sha256 of the plan as of the start of the release.")


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
        help_text="The release that superseded this one; null while it serves, or unless promoted.",
    )
    undone_by = serializers.IntegerField(
        source="undone_by_id", allow_null=True, help_text="The promoted release that rolled this one back."
    )
    bake_until = serializers.DateTimeField(
        allow_null=True,
        help_text="End of the bake time: until then the workers of the previous version are kept warm "
        "for a rollback; null: none.",
    )
    url = serializers.SerializerMethodField(help_text="URL of its page in the console.")

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
        return page_of(release)


@example(examples.RELEASE)
class ReleaseSerializer(ReleaseRowSerializer):
    steps = StepSerializer(many=True)
    clock = serializers.SerializerMethodField(
        help_text="Clock of the current hold, cohort, weight or analysis; null: none."
    )
    weights = serializers.SerializerMethodField()
    verdict = serializers.SerializerMethodField(
        help_text="Latest verdict of the analysis; null before the first."
    )
    slow_threshold = serializers.SerializerMethodField(
        help_text="Slow-request threshold and its origin; null before it is known."
    )
    waiting_for = serializers.SerializerMethodField(help_text="Pending approval or intervention; null: none.")
    approvals = ApprovalSerializer(many=True)
    halted_by = serializers.CharField(help_text="Who stopped it; empty: nobody.")
    paused_by = serializers.CharField(help_text="Who paused it; empty: nobody.")
    held = serializers.SerializerMethodField(
        help_text="Machine under its workers that leaves service; nobody is judged meanwhile. null: none."
    )
    frozen = serializers.SerializerMethodField(help_text="Freeze that holds it where it is; null: none.")
    undoes = serializers.IntegerField(source="undoes_id", allow_null=True)
    way_back = serializers.SerializerMethodField(
        help_text="Estimated rollback; null unless promoted and serving."
    )
    bypassed = serializers.SerializerMethodField(help_text="Bypass of the release policy; null: none.")
    image = serializers.CharField(
        source="image.name",
        default=None,
        allow_null=True,
        help_text="Runtime image given for it; null: the service's. Its deployment tells what its "
        "workers run.",
    )
    counted_by = serializers.SerializerMethodField(help_text="Who counts its traffic, in words.")
    not_counted = serializers.SerializerMethodField(
        help_text="Errors that nobody counts, so that the analysis cannot see them; empty: none."
    )
    fetches = serializers.SerializerMethodField(
        help_text="Model files on their way to the machines of the candidate's workers; empty: none."
    )
    last_error = serializers.CharField(help_text="Reason why the last attempt at the current step failed.")

    class Meta(ReleaseRowSerializer.Meta):
        fields = (
            *ReleaseRowSerializer.Meta.fields,
            "steps",
            "clock",
            "weights",
            "verdict",
            "slow_threshold",
            "waiting_for",
            "approvals",
            "halted_by",
            "paused_by",
            "held",
            "frozen",
            "freeze_override",
            "undoes",
            "way_back",
            "bypassed",
            "image",
            "counted_by",
            "not_counted",
            "fetches",
            "last_error",
        )

    @extend_schema_field(HeldSerializer(allow_null=True))
    def get_held(self, release: Release) -> Any:
        return HeldSerializer(release.disturbance).data if release.disturbed_at else None

    @extend_schema_field(FrozenSerializer(allow_null=True))
    def get_frozen(self, release: Release) -> Any:
        held = freeze_holding(release) if release.in_motion else None
        return FrozenSerializer(held).data if held else None

    @extend_schema_field(WayBackSerializer(allow_null=True))
    def get_way_back(self, release: Release) -> Any:
        serves = release.state == ReleaseState.PROMOTED and release.superseded_by_id is None
        return WayBackSerializer(bake.way_back(release)).data if serves and release.from_version_id else None

    @extend_schema_field(BypassSerializer(allow_null=True))
    def get_bypassed(self, release: Release) -> Any:
        return BypassSerializer(release).data if release.shortfalls else None

    @extend_schema_field(serializers.CharField())
    def get_not_counted(self, release: Release) -> str:
        return gateway.not_counted(release.service.cluster_id)

    @extend_schema_field(serializers.CharField())
    def get_counted_by(self, release: Release) -> str:
        return gateway.counted_by(release.service.cluster_id)

    @extend_schema_field(FilesFetchSerializer(many=True))
    def get_fetches(self, release: Release) -> Any:
        return release.progress.get("fetches", []) if release.in_motion else []

    @extend_schema_field(ClockSerializer(allow_null=True))
    def get_clock(self, release: Release) -> Any:
        clock = clock_of(release)
        return None if clock is None else ClockSerializer(clock).data

    @extend_schema_field(WeightsSerializer)
    def get_weights(self, release: Release) -> Any:
        return release_selectors.weights(release)

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_verdict(self, release: Release) -> Any:
        verdict = verdict_of(release)
        return None if verdict is None else verdict.to_dict()

    @extend_schema_field(ThresholdSerializer(allow_null=True))
    def get_slow_threshold(self, release: Release) -> Any:
        found = threshold_of(release)
        return None if found is None else ThresholdSerializer(found).data

    @extend_schema_field(WaitingForSerializer(allow_null=True))
    def get_waiting_for(self, release: Release) -> Any:
        waiting, count = waiting_for_what(release), count_at_hand(release)
        # Enough people have approved; the release has not yet gone on.
        if waiting is None or (count is not None and not count.missing):
            return None
        terms = {"people": 1, "role": None, "separate_requester": False}
        if count is not None:
            terms = {name: getattr(count.rules, name) for name in terms}
        return WaitingForSerializer(asdict(waiting) | terms).data


@example(examples.NEW_RELEASE)
class NewReleaseSerializer(serializers.Serializer[Any]):
    service = serializers.CharField(max_length=50)
    version = serializers.CharField(
        max_length=191, help_text="A version of the service's model, or `model:version`."
    )
    model = serializers.CharField(max_length=95, required=False, help_text="Must be the service's model.")
    plan = serializers.CharField(
        max_length=63, required=False, allow_blank=True, help_text="Empty: the service's."
    )
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)
    image = serializers.CharField(
        max_length=95, required=False, allow_null=True, help_text="Runtime image; null: the service's."
    )
    bypass = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Reason to release although the plan does not meet the release policy; requires the "
        "right `releases.bypass`.",
    )
    override = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Reason to start in spite of a freeze; requires the right `releases.override`.",
    )


@example(examples.REASON)
class OptionalReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True, default="")


class MoveSerializer(serializers.ModelSerializer[ReleaseMove]):
    class Meta:
        model = ReleaseMove
        fields = ("id", "at", "before", "after", "actor", "note")
