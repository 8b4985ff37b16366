"""The store over REST: for administrators of the installation, since all teams share it."""

from typing import Any, ClassVar

from django.conf import settings
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.permissions import InstallationRight
from accounts.services.rights import require_everywhere
from accounts.states import Right
from common.api.examples import example
from common.api.rows import CardsEndpoint, ReasonSerializer, StuckField
from common.api.views import CreateEndpoint, Endpoint, ListEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from model_store import selectors, services
from model_store.api import examples
from model_store.backends.base import PARTS
from model_store.models import Check, Collection, CorruptBlob
from model_store.selectors import CorruptBlobCard
from model_store.services import MOST_GRACE_HOURS
from model_store.states import CorruptBlobState, RunState


@example(examples.COLLECTION)
class CollectionSerializer(serializers.Serializer[Collection]):
    id = serializers.IntegerField(source="pk")
    state = serializers.ChoiceField(choices=RunState.choices)
    stuck = StuckField()
    asked_by = serializers.CharField(source="asked_by_name")
    reason = serializers.CharField()
    grace_hours = serializers.SerializerMethodField()
    began_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    progress = serializers.SerializerMethodField(help_text="Progress, 0 to 1.")
    blobs = serializers.IntegerField(help_text="Findings of the scan.")
    bytes = serializers.IntegerField()
    waiting_blobs = serializers.IntegerField(help_text="Unreferenced, within the grace period.")
    waiting_bytes = serializers.IntegerField()
    deleted_blobs = serializers.IntegerField()
    deleted_bytes = serializers.IntegerField()

    def get_grace_hours(self, row: Collection) -> float:
        return row.grace_seconds / 3600

    def get_progress(self, row: Collection) -> float:
        return row.place / PARTS


@example(examples.CHECK)
class CheckSerializer(serializers.Serializer[Check]):
    id = serializers.IntegerField(source="pk")
    state = serializers.ChoiceField(choices=RunState.choices)
    stuck = StuckField()
    asked_by = serializers.CharField(source="asked_by_name")
    reason = serializers.CharField()
    bytes_per_second = serializers.IntegerField(help_text="Read limit in bytes per second.")
    began_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    blobs_done = serializers.IntegerField()
    blobs_total = serializers.IntegerField()
    bytes_done = serializers.IntegerField()
    bytes_total = serializers.IntegerField()
    damaged = serializers.IntegerField(help_text="Corrupt blobs: the content does not match the name.")
    missing = serializers.IntegerField(help_text="Missing blobs that a ready version references.")


@example(examples.FINDING)
class FindingSerializer(serializers.Serializer[CorruptBlobCard]):
    id = serializers.IntegerField(source="corrupt_blob.pk")
    state = serializers.ChoiceField(source="corrupt_blob.state", choices=CorruptBlobState.choices)
    reason = serializers.CharField(source="corrupt_blob.reason", help_text="Reason for its state.")
    stuck = StuckField(source="corrupt_blob")
    sha256 = serializers.CharField(source="corrupt_blob.sha256", help_text="Expected sha256.")
    bytes = serializers.IntegerField(source="corrupt_blob.size")
    detail = serializers.CharField(source="corrupt_blob.detail", help_text="Description of the damage.")
    versions = serializers.SerializerMethodField(
        help_text="Affected versions; none can be released while it is open."
    )
    check = serializers.IntegerField(source="corrupt_blob.found_by_id")
    found_at = serializers.DateTimeField(source="corrupt_blob.found_at")
    ended_at = serializers.DateTimeField(source="corrupt_blob.ended_at", allow_null=True)

    def get_versions(self, card: CorruptBlobCard) -> list[str]:
        return [owner.name for owner in card.owners]


@example(examples.NEW_COLLECTION)
class NewCollectionSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)
    grace_hours = serializers.IntegerField(
        min_value=0,
        max_value=MOST_GRACE_HOURS,
        required=False,
        help_text="Grace period of unreferenced files; default: the server's.",
    )


@example(examples.STORE)
class StoreSerializer(serializers.Serializer[Any]):
    blobs = serializers.IntegerField(help_text="Referenced blobs, deduplicated.")
    bytes = serializers.IntegerField()
    version_bytes = serializers.IntegerField(help_text="Total size of all versions, without deduplication.")
    dedup_factor = serializers.FloatField(allow_null=True, help_text="`version_bytes` by `bytes`.")
    waiting_blobs = serializers.IntegerField(help_text="Unreferenced, within the grace period.")
    waiting_bytes = serializers.IntegerField()
    free_bytes = serializers.IntegerField(allow_null=True, help_text="Free space; null: unlimited.")
    kind = serializers.ChoiceField(
        choices=["directory", "bucket"], source="look.kind", default=None, allow_null=True
    )
    where = serializers.CharField(source="look.where", default=None, allow_null=True)
    cache_bytes = serializers.IntegerField(
        source="look.cache_bytes",
        default=None,
        allow_null=True,
        help_text="Local cache of a bucket's files.",
    )
    cache_limit_bytes = serializers.IntegerField(
        source="look.cache_limit_bytes", default=None, allow_null=True, help_text="0: none."
    )
    problem = serializers.CharField(help_text="Reason why it is unreachable; else empty.")
    grace_hours = serializers.SerializerMethodField()
    last_collection = CollectionSerializer(allow_null=True)
    last_check = CheckSerializer(allow_null=True)
    open_findings = serializers.IntegerField(help_text="Corrupt or missing blobs not repaired yet.")

    def get_grace_hours(self, _: Any) -> float:
        return float(settings.SLIPWAY_STORE_GRACE_SECONDS / 3600)


class OfStore(Endpoint):
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-pk",)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        require_everywhere(self.actor, Right.FLEET_OPERATE)


class StoreState(OfStore):
    """The contents of the store in figures."""

    queryset = Collection.objects.all()
    serializer_class = StoreSerializer
    pagination_class = None

    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Usage, deduplication, the last garbage collection and the last integrity check."""
        return Response(self.get_serializer(selectors.store_now()).data)


class Collections(OfStore, ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Walks over the store that delete what no version has needed for the grace time."""

    queryset = Collection.objects.all()
    serializer_class = CollectionSerializer
    inputs = {"create": NewCollectionSerializer}
    created_status = 202
    needs: ClassVar = {"create": InstallationRight(Right.FLEET_OPERATE)}

    def visible(self, rows: QuerySet[Collection]) -> QuerySet[Collection]:
        return selectors.collections()

    def create_one(self, given: dict[str, Any]) -> Collection:
        hours = given.pop("grace_hours", None)
        seconds = None if hours is None else hours * 3600
        return services.start_collection(actor=self.actor, grace_seconds=seconds, **given)


class Checks(OfStore, ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Readings of the whole store that compare every blob with its name and with what versions need."""

    queryset = Check.objects.all()
    serializer_class = CheckSerializer
    inputs = {"create": ReasonSerializer}
    created_status = 202
    needs: ClassVar = {"create": InstallationRight(Right.FLEET_OPERATE)}

    def visible(self, rows: QuerySet[Check]) -> QuerySet[Check]:
        return selectors.checks()

    def create_one(self, given: dict[str, Any]) -> Check:
        return services.start_check(actor=self.actor, **given)


class CorruptBlobFindings(CardsEndpoint, OfStore, ListEndpoint, RetrieveEndpoint):
    """Blobs that checks found damaged or missing, the versions that need them, and their repair."""

    queryset = CorruptBlob.objects.all()
    cards: ClassVar = {CorruptBlob: selectors.corrupt_blob_card}
    serializer_class = FindingSerializer
    inputs = {"retry": ReasonSerializer}
    filterset_fields = ("state",)
    needs: ClassVar = {"retry": InstallationRight(Right.FLEET_OPERATE)}

    def visible(self, rows: QuerySet[CorruptBlob]) -> QuerySet[CorruptBlob]:
        return selectors.corrupt_blobs()

    def shown(self, page: Any) -> Any:
        return self.get_serializer(selectors.corrupt_blob_cards(page), many=True).data

    @extend_schema(responses={202: FindingSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retry the repair of a lost blob from its sources."""
        corrupt_blob = services.retry_repair(actor=self.actor, corrupt_blob=self.get_object(), **self.given())
        return self.answer(corrupt_blob, status=202)
