from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http.response import HttpResponse, HttpResponseBase
from django.utils.functional import cached_property
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors as accounts
from accounts.api.shared import events_of
from accounts.states import Right
from common.api.rows import EVENTS, CardsEndpoint, ReasonSerializer
from common.api.streams import ServerEvent
from common.api.views import (
    CreateEndpoint,
    DestroyEndpoint,
    Endpoint,
    ListEndpoint,
    RetrieveEndpoint,
    UpdateEndpoint,
)
from common.errors import Invalid, Missing
from models_registry import signature_verification
from models_registry.api import serializers
from models_registry.api.comparison import ComparisonSerializer, comparison_shown
from models_registry.errors import SourceNotAllowed
from models_registry.filters import AnyVersionFilter, ModelFilter, VersionFilter
from models_registry.importing.sources import upload_named
from models_registry.models import Model, Version
from models_registry.selectors import catalogue, uploads, versions
from models_registry.services import archiving, imports
from models_registry.services import catalogue as catalogue_services
from models_registry.services import signature_verification as signature_services
from models_registry.services import uploads as upload_services
from models_registry.services import versions as version_services
from models_registry.states import SignatureOrigin, VersionState
from trust.signing import bundles

MODEL = OpenApiParameter("model", OpenApiTypes.STR, OpenApiParameter.PATH, description="Name of the model.")
VERSION = OpenApiParameter(
    "version",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="Version name, such as `v3`, or at least 12 hex digits of its digest.",
)


class Models(CardsEndpoint, ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Models: what a team owns and releases, version by version."""

    queryset = Model.objects.all()
    cards: ClassVar = {Model: catalogue.card}
    serializer_class = serializers.ModelSerializer
    inputs = {
        "create": serializers.NewModelSerializer,
        "partial_update": serializers.ModelChangeSerializer,
    }
    filterset_class = ModelFilter
    lookup_field = "name"
    lookup_url_kwarg = "model"
    lookup_value_converter = "str"
    sort = ("name", "-created_at", "task")
    needs: ClassVar = dict.fromkeys(("create", "partial_update", "destroy"), Right.MODELS_WRITE)

    def visible(self, rows: QuerySet[Model]) -> QuerySet[Model]:
        return catalogue.models(self.actor)

    def shown(self, page: Any) -> Any:
        return [serializers.model_shown(card) for card in catalogue.cards(page)]

    def create_one(self, given: dict[str, Any]) -> Model:
        teams = accounts.teams_where(self.actor, Right.MODELS_WRITE)
        if "team" in given:
            teams = accounts.teams_where(self.actor, Right.READ).filter(name=given.pop("team"))
        listed = list(teams.order_by("name")[:20])
        if len(listed) == 1:
            return catalogue_services.create_model(actor=self.actor, team=listed[0], **given)
        named = ", ".join(team.name for team in listed)
        sentence = f"Say which team will own it: {named}." if named else "There is no such team of yours."
        raise Invalid(fields={"team": [sentence]})

    def change_one(self, instance: Model, given: dict[str, Any], expected: int | None) -> Model:
        return catalogue_services.change_model(actor=self.actor, model=instance, expected=expected, **given)

    def delete_one(self, instance: Model, expected: int | None, reason: str) -> None:
        catalogue_services.delete_model(actor=self.actor, model=instance, expected=expected, reason=reason)


class OfModel(Endpoint):
    """An endpoint below one model's path."""

    @cached_property
    def model(self) -> Model:
        return catalogue.model_named(self.actor, self.kwargs["model"])


@extend_schema(parameters=[MODEL, VERSION])
class VersionActions(CardsEndpoint, OfModel, RetrieveEndpoint, DestroyEndpoint):
    """A version of a model."""

    queryset = Version.objects.all()
    cards: ClassVar = {Version: versions.version_card}
    serializer_class = serializers.VersionDetailSerializer
    inputs = {
        "retry": ReasonSerializer,
        "cancel": ReasonSerializer,
        "archive": ReasonSerializer,
        "restore": ReasonSerializer,
        "tags": serializers.TaggingSerializer,
        "verify": ReasonSerializer,
    }
    lookup_field = "name"
    lookup_url_kwarg = "version"
    lookup_value_converter = "str"
    parameters: ClassVar = {"signature": ("origin",)}

    def get_object(self) -> Version:
        return versions.version_named(self.model, self.kwargs["version"])

    def visible(self, rows: QuerySet[Version]) -> QuerySet[Version]:
        return versions.versions(self.model).defer("scan")

    def delete_one(self, instance: Version, expected: int | None, reason: str) -> None:
        version_services.delete_version(actor=self.actor, version=instance, reason=reason)

    @extend_schema(responses={202: serializers.VersionDetailSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retry the import of a failed or refused version."""
        version = imports.retry_import(actor=self.actor, version=self.get_object(), **self.given())
        return self.answer(version, status=202)

    @extend_schema(responses={202: serializers.VersionDetailSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel an import and delete what it copied."""
        version = imports.cancel_import(actor=self.actor, version=self.get_object(), **self.given())
        return self.answer(version, status=202)

    @extend_schema(responses={200: serializers.VersionDetailSerializer})
    @action(detail=True, methods=["post"])
    def archive(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Archive a version: it is hidden from lists and cannot be released; its files are kept."""
        return self.answer(
            archiving.archive_version(actor=self.actor, version=self.get_object(), **self.given())
        )

    @extend_schema(responses={200: serializers.VersionDetailSerializer})
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Restore an archived version."""
        return self.answer(
            archiving.restore_version(actor=self.actor, version=self.get_object(), **self.given())
        )

    @extend_schema(responses={200: serializers.VersionDetailSerializer})
    @action(detail=True, methods=["post"])
    def tags(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Add and remove tags of a version."""
        return self.answer(archiving.tag_version(actor=self.actor, version=self.get_object(), **self.given()))

    @extend_schema(responses={202: serializers.VersionDetailSerializer})
    @action(detail=True, methods=["post"])
    def verify(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Verify its signatures again; the server signs it if its own signature is missing."""
        version = signature_services.verify_signatures(
            actor=self.actor, version=self.get_object(), **self.given()
        )
        return self.answer(version, status=202)

    @extend_schema(
        parameters=[
            OpenApiParameter("origin", enum=SignatureOrigin.values, description="Origin of the signature.")
        ],
        responses={
            (200, bundles.MEDIA_TYPE): OpenApiResponse(
                OpenApiTypes.STR, description="A Sigstore bundle, as `model_signing verify key` reads it."
            )
        },
    )
    @action(detail=True)
    def signature(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Download the signature: the server's, or the one among the files."""
        version = self.get_object()
        bundle = signature_verification.bundle_of(version, request.query_params.get("origin", ""))
        name = f"{version.model.name}-{version.name}.sig"
        disposition = content_disposition_header(as_attachment=True, filename=name) or ""
        return HttpResponse(
            bundle, content_type=bundles.MEDIA_TYPE, headers={"Content-Disposition": disposition}
        )

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "other", OpenApiTypes.STR, OpenApiParameter.PATH, description="The version to compare with."
            )
        ],
        responses={200: ComparisonSerializer},
    )
    @action(detail=True, url_path="compare/<str:other>")
    def compare(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Compare with another version: files, config, facts, tokenizer, model card, metrics."""
        before, after = self.get_object(), versions.version_named(self.model, self.kwargs["other"])
        return Response(comparison_shown(before, after, versions.compare_versions(before, after)))

    @extend_schema(responses=EVENTS)
    @action(detail=True)
    def events(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Follow an import: a server-sent event at every change until it ends."""
        return events_of(self.get_object(), self, read=_version_events)


class Versions(ListEndpoint, CreateEndpoint, VersionActions):
    """The versions of a model; once ready they never change."""

    inputs = {**VersionActions.inputs, "create": serializers.NewVersionSerializer}
    outputs: ClassVar = {"list": serializers.VersionSerializer}
    filterset_class = VersionFilter
    sort = ("-number", "size_bytes")
    created_status = 202
    needs: ClassVar = dict.fromkeys(
        ("create", "destroy", "cancel", "archive", "restore", "verify", "tags", "retry"), Right.MODELS_WRITE
    )

    def first_rows(self, limit: int) -> list[Version]:
        return versions.newest_versions(self.model)[:limit]

    def shown(self, page: Any) -> Any:
        return [serializers.version_shown(card) for card in versions.version_cards(page)]

    def create_one(self, given: dict[str, Any]) -> Version:
        if (number := upload_named(given["source"])) is not None:
            told = {key: given[key] for key in ("version", "message", "lineage") if key in given}
            try:
                upload = uploads.upload_of(self.model, number)
            except Missing as error:
                raise SourceNotAllowed(str(error)) from None
            return upload_services.complete_upload(actor=self.actor, upload=upload, **told)
        return imports.import_version(actor=self.actor, model=self.model, **given)


class AnyVersions(CardsEndpoint, ListEndpoint):
    """The versions of all models that you may see, newest first."""

    queryset = Version.objects.all()
    cards: ClassVar = {Version: versions.version_card}
    serializer_class = serializers.VersionSerializer
    filterset_class = AnyVersionFilter
    sort = ("-pk",)

    def visible(self, rows: QuerySet[Version]) -> QuerySet[Version]:
        return versions.any_versions(self.actor).defer("scan")

    def shown(self, page: Any) -> Any:
        return [serializers.version_shown(card) for card in versions.version_cards(page)]


def _version_events(version_id: int, after: str) -> list[ServerEvent]:
    """Return one event with the version as it is now, if it changed since `after`."""
    version = Version.objects.select_related("model").filter(pk=version_id).first()
    if version is None:
        return []
    state = (version.state, version.attempt, version.bytes_done, version.files_done, bool(version.stuck_at))
    place = ".".join(str(part) for part in state)
    if place == after:
        return []
    shown = serializers.VersionSerializer(versions.version_card(version)).data
    return [ServerEvent(place, "version", shown, last=version.state != VersionState.IMPORTING)]
