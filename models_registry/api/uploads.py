"""Uploads over REST: the whole list of files first, then what is missing of their contents, part by part."""

import base64
import binascii
import re
from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from common.api.examples import example
from common.api.json import JSONParser
from common.api.rows import CardsEndpoint, ReasonSerializer, StuckField
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint
from model_store.errors import PartRefused
from models_registry.api import upload_examples as examples
from models_registry.api.serializers import VersionDetailSerializer
from models_registry.api.views import MODEL, OfModel
from models_registry.models import Upload, Version
from models_registry.reconcilers.uploads import EXPIRES_AFTER
from models_registry.selectors import uploads, versions
from models_registry.selectors.uploads import ContentCard, UploadCard
from models_registry.services import uploads as upload_services
from models_registry.services.uploads import MAX_ORIGIN, REQUEST_BYTES
from models_registry.states import UploadState

MAX_MANIFEST_BYTES = 8 * 1024 * 1024
SHA256 = OpenApiParameter(
    "sha256",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="sha256 of the whole file, in lower-case hex.",
)
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]{44}):\s*(?:,|$)")


class ManifestParser(JSONParser):
    """A version may have 20,000 files."""

    limit = MAX_MANIFEST_BYTES


class AnnouncedFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(max_length=1_024, trim_whitespace=False)
    size = serializers.IntegerField(min_value=0)
    sha256 = serializers.RegexField(
        r"^[0-9a-f]{64}$", error_messages={"invalid": "A sha256 has 64 digits, 0-9 and a-f."}
    )


@example(examples.NEW_UPLOAD)
class NewUploadSerializer(serializers.Serializer[Any]):
    files = AnnouncedFileSerializer(many=True, allow_empty=False, help_text="All files of the version.")
    origin = serializers.CharField(
        max_length=MAX_ORIGIN,
        required=False,
        allow_blank=True,
        help_text="Origin of the files, such as host and directory; shown with the version.",
    )


@extend_schema_field({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}})
class RangesField(serializers.Field[Any, Any, Any, Any]):
    def to_representation(self, received: tuple[range, ...]) -> list[list[int]]:
        return [[one.start, one.stop - 1] for one in received if one]


@example(examples.UPLOAD_CONTENT)
class ContentSerializer(serializers.Serializer[ContentCard]):
    sha256 = serializers.CharField()
    size = serializers.IntegerField()
    received_bytes = serializers.IntegerField()
    received = RangesField(help_text="Received ranges: first and last byte of each.")
    is_whole = serializers.BooleanField(help_text="The file is complete.")


@example(examples.UPLOAD)
class UploadSerializer(serializers.Serializer[UploadCard]):
    id = serializers.IntegerField(source="upload.pk")
    model = serializers.CharField(source="upload.model.name")
    state = serializers.ChoiceField(source="upload.state", choices=UploadState.choices)
    reason = serializers.CharField(source="upload.reason", help_text="Reason for its state.")
    stuck = StuckField(source="upload")
    part_bytes = serializers.IntegerField(
        source="upload.part_bytes", help_text="Size of every part but the last of a file."
    )
    request_bytes = serializers.SerializerMethodField(
        help_text="Maximum size of one request with consecutive parts."
    )
    file_count = serializers.IntegerField(source="upload.file_count")
    size_bytes = serializers.IntegerField(source="upload.size_bytes", help_text="Total size of all files.")
    total_bytes = serializers.IntegerField(help_text="Total size, deduplicated; 0 once it has ended.")
    received_bytes = serializers.IntegerField(help_text="Of these, received or already stored.")
    bytes_per_second = serializers.IntegerField(
        source="upload.rate", help_text="Current transfer rate; 0 while stalled."
    )
    missing = ContentSerializer(many=True, help_text="Incomplete files.")
    version = serializers.CharField(
        source="upload.version.name", default=None, allow_null=True, help_text="null: not completed."
    )
    author = serializers.CharField(source="upload.author_name")
    address = serializers.CharField(source="upload.address", help_text="Address of the uploader.")
    origin = serializers.CharField(source="upload.sent_from")
    created_at = serializers.DateTimeField(source="upload.created_at")
    expires_at = serializers.SerializerMethodField(
        help_text="Expiry without further uploads; null: does not expire."
    )
    ended_at = serializers.DateTimeField(source="upload.ended_at", allow_null=True)

    def get_request_bytes(self, card: UploadCard) -> int:
        return max(card.upload.part_bytes, REQUEST_BYTES)

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_expires_at(self, card: UploadCard) -> Any:
        is_open = card.upload.state == UploadState.OPEN
        return card.upload.touched_at + EXPIRES_AFTER if is_open else None


@example(examples.UPLOAD_COMPLETE)
class CompleteSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(
        max_length=95, required=False, allow_blank=True, help_text="Version name; default: the next v-number."
    )
    message = serializers.CharField(max_length=4_000, required=False, allow_blank=True)
    lineage = serializers.DictField(required=False, help_text="Lineage, as for an imported version.")


class UploadFilter(django_filters.FilterSet):  # type: ignore[misc]
    state = django_filters.MultipleChoiceFilter(choices=UploadState.choices)


@extend_schema(parameters=[MODEL])
class Uploads(CardsEndpoint, OfModel, ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Files on their way from somebody's machine to a model."""

    queryset = Upload.objects.all()
    cards: ClassVar = {Upload: uploads.upload_card, Version: versions.version_card}
    serializer_class = UploadSerializer
    inputs = {
        "create": NewUploadSerializer,
        "complete": CompleteSerializer,
        "cancel": ReasonSerializer,
    }
    outputs: ClassVar = {
        "blob": ContentSerializer,
        "send_parts": ContentSerializer,
        "complete": VersionDetailSerializer,
    }
    parser_classes = (ManifestParser,)
    filterset_class = UploadFilter
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-pk",)
    needs: ClassVar = dict.fromkeys(("create", "send_parts", "complete", "cancel"), Right.MODELS_WRITE)

    def visible(self, rows: QuerySet[Upload]) -> QuerySet[Upload]:
        return uploads.uploads(self.actor, self.model)

    def get_object(self) -> Upload:
        return uploads.upload_of(self.model, self.kwargs["id"])

    def shown(self, page: Any) -> Any:
        return self.get_serializer(uploads.upload_cards(page), many=True).data

    def create_one(self, given: dict[str, Any]) -> Upload:
        return upload_services.begin_upload(actor=self.actor, model=self.model, **given)

    @extend_schema(parameters=[SHA256])
    @action(detail=True, url_path="blobs/<str:sha256>")
    def blob(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Received ranges of a file; `HEAD` returns `X-Received-Bytes`."""
        card = uploads.content_card(self.get_object(), self.kwargs["sha256"])
        headers = {"X-Received-Bytes": str(card.received_bytes)}
        return Response(self.get_serializer(card).data, headers=headers)

    @extend_schema(
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=ContentSerializer,
        parameters=[
            SHA256,
            OpenApiParameter(
                "Content-Range",
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                description="`bytes first-last/size` of one or more parts; optional if there is only "
                "one part.",
            ),
            OpenApiParameter(
                "Content-Digest",
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                description="`sha-256=:...:` of the body (RFC 9530); a mismatch is refused.",
            ),
        ],
    )
    @blob.mapping.put
    def send_parts(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Upload one part of a file, or several consecutive ones: their bytes are the body.

        Parts may arrive in any order, in parallel, and more than once. When the last one arrives, the file
        is compared with its sha256; on a mismatch all of it has to be uploaded again (409).
        """
        upload = self.get_object()
        upload_services.take_parts(
            actor=self.actor,
            upload=upload,
            sha256=self.kwargs["sha256"],
            content_range=request.headers.get("Content-Range", ""),
            body=request._request,
            digest=_digest(request.headers.get("Content-Digest", "")),
        )
        return Response(self.get_serializer(uploads.content_card(upload, self.kwargs["sha256"])).data)

    @extend_schema(responses={202: VersionDetailSerializer})
    @action(detail=True, methods=["post"])
    def complete(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Complete: create a version from the uploaded files; it is scanned like every import."""
        version = upload_services.complete_upload(actor=self.actor, upload=self.get_object(), **self.given())
        response = self.answer(version, status=202)
        response["Location"] = f"/api/v1/models/{self.model.name}/versions/{version.name}/"
        return response

    @extend_schema(responses={200: UploadSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel and delete the received files."""
        return self.answer(
            upload_services.cancel_upload(actor=self.actor, upload=self.get_object(), **self.given())
        )


class AnyUploads(CardsEndpoint, ListEndpoint):
    """Files on their way to any model that you may see."""

    queryset = Upload.objects.all()
    cards: ClassVar = {Upload: uploads.upload_card}
    serializer_class = UploadSerializer
    filterset_class = UploadFilter
    sort = ("-pk",)

    def visible(self, rows: QuerySet[Upload]) -> QuerySet[Upload]:
        return uploads.uploads(self.actor)

    def shown(self, page: Any) -> Any:
        return self.get_serializer(uploads.upload_cards(page), many=True).data


def _digest(header: str) -> bytes | None:
    """The sha-256 of `Content-Digest`; None: it has none. Raises PartRefused."""
    found = _DIGEST.search(header)
    if found is None:
        if "sha-256" in header.lower():
            raise PartRefused(_("Content-Digest has the form sha-256=:<base64>: (RFC 9530)."))
        return None
    try:
        return base64.b64decode(found[1], validate=True)
    except binascii.Error:
        raise PartRefused(_("The sha-256 of Content-Digest is not base64.")) from None
