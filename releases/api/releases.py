from functools import partial
from typing import Any, ClassVar, cast

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.actors import again
from accounts.states import Right
from common.actor import Actor
from common.api.rows import RequiredReasonSerializer
from common.api.streams import ServerEvent, events_response
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint
from common.errors import Invalid
from releases.api.named import image_named, version_named
from releases.api.serializers.releases import (
    MoveSerializer,
    NewReleaseSerializer,
    OptionalReasonSerializer,
    ReleaseRowSerializer,
    ReleaseSerializer,
)
from releases.filters import ReleaseFilter
from releases.models import Release, Service
from releases.services.approval import approve, reject, require_decision
from releases.services.freezing import override_freeze
from releases.services.release import abort, end_bake, pause, resume, rollback, start_release
from releases.states import FINAL
from releases.succession import with_succession


class Releases(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Releases: the rollout of a version to a service."""

    queryset = with_succession(Release.objects.all()).select_related(
        "team", "service__model", "version__model", "from_version__model", "image"
    )
    serializer_class = ReleaseSerializer
    inputs = {
        "create": NewReleaseSerializer,
        **dict.fromkeys(("approve", "reject", "abort", "rollback", "override"), RequiredReasonSerializer),
        **dict.fromkeys(("pause", "resume", "end_bake"), OptionalReasonSerializer),
    }
    outputs = {"list": ReleaseRowSerializer}
    created_status = 202
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("-created_at", "created_at")
    filterset_class = ReleaseFilter
    needs: ClassVar = {
        "create": Right.RELEASES_START,
        # A delegate decides by the right of the person who is away: `check_object_permissions` asks for it.
        "approve": Right.READ,
        "reject": Right.READ,
        "pause": Right.RELEASES_OPERATE,
        "resume": Right.RELEASES_OPERATE,
        "abort": Right.RELEASES_OPERATE,
        "rollback": Right.RELEASES_OPERATE,
        "override": Right.RELEASES_OVERRIDE,
        "end_bake": Right.RELEASES_OPERATE,
    }

    def service_of(self, row: Release) -> str:
        return row.service.name

    def check_object_permissions(self, request: Request, obj: Release) -> None:
        super().check_object_permissions(request, obj)
        if self.action in ("approve", "reject"):
            require_decision(obj, actor=self.actor)

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if self.action == "list":
            return rows
        return rows.prefetch_related("steps", "approvals__by", "approvals__on_behalf_of")

    def create_one(self, given: dict[str, Any]) -> Release:
        service = Service.objects.for_actor(self.actor).filter(name=given["service"]).first()
        if service is None:
            raise Invalid(fields={"service": [_("There is no such service, or none that you may see.")]})
        model_name, _colon, version_name = given["version"].rpartition(":")
        for named in (model_name, given.get("model", "")):
            if named and named != service.model.name:
                raise Invalid(
                    fields={
                        "model": [
                            _("%(service)s serves %(model)s, not %(named)s.")
                            % {"service": service.name, "model": service.model.name, "named": named}
                        ]
                    }
                )
        return start_release(
            actor=self.actor,
            service=service,
            version=version_named(self, service.model, version_name),
            plan_name=given.get("plan", ""),
            reason=given.get("reason", ""),
            image=image_named(self, given.get("image")),
            bypass=given.get("bypass", ""),
            override=given.get("override", ""),
        )

    @extend_schema(responses=ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Approve."""
        return self._wish(approve)

    @extend_schema(responses=ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Reject: all traffic returns to stable."""
        return self._wish(reject)

    @extend_schema(responses=ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Pause at the current step; the analysis continues."""
        return self._wish(pause)

    @extend_schema(responses=ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Resume a paused release, or retry a stuck one."""
        return self._wish(resume)

    @extend_schema(responses=ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Abort: all traffic returns to stable."""
        return self._wish(abort)

    @extend_schema(responses=ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def override(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Continue in spite of the freeze that holds it."""
        return self._wish(override_freeze)

    @extend_schema(responses=ReleaseSerializer)
    @action(detail=True, methods=["post"], url_path="end-bake")
    def end_bake(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """End the bake time: stop the workers that are kept warm for a rollback."""
        return self._wish(end_bake)

    @extend_schema(
        responses=ReleaseSerializer,
        description="The release itself while active; for a promoted release, a new release of the "
        "previous version.",
    )
    @action(detail=True, methods=["post"])
    def rollback(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Roll back to the previous version."""
        release = rollback(self.get_object(), actor=self.actor, **self.given())
        return self.answer(self._fresh(release.pk))

    @extend_schema(
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
        parameters=[OpenApiParameter("Last-Event-ID", OpenApiTypes.STR, OpenApiParameter.HEADER)],
    )
    @action(detail=True, methods=["get"])
    def events(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Follow a release: a server-sent event at every change until it ends."""
        release = self.get_object()
        return events_response(
            request._request,
            read=partial(_moves_after, release.pk),
            may_go_on=partial(_may_read, self.actor, release.pk),
        )

    def _wish(self, service: Any) -> Response:
        release = self.get_object()
        service(release, actor=self.actor, **self.given())
        return self.answer(self._fresh(release.pk))

    def _fresh(self, pk: int) -> Release:
        return cast("Release", self.get_queryset().get(pk=pk))


def _may_read(actor: Actor, pk: int) -> bool:
    """Read the rights anew: a stream must not outlive them."""
    return bool(Release.objects.for_actor(again(actor)).filter(pk=pk).exists())


def _moves_after(pk: int, after: str) -> list[ServerEvent]:
    release = Release.objects.get(pk=pk)
    moves = release.moves.filter(pk__gt=int(after)) if after.isdigit() else release.moves.all()
    return [
        ServerEvent(
            id=str(move.pk),
            name="move",
            data=MoveSerializer(move).data,
            last=move.after in FINAL,
        )
        for move in moves
    ]
