from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors as accounts
from accounts.states import Right
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint
from common.errors import Invalid
from images import pulls, selectors, services
from images.api import serializers
from images.errors import UnknownImage
from images.filters import ImageFilter
from images.models import RuntimeImage
from images.refreshing import refresh_images
from images.wishing import wish_of
from serving.engines.registry import ENGINES


def _asked(name: str, says: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, description=says, required=name == "engine")


FIT = (
    _asked("engine", f"One of {', '.join(ENGINES)}."),
    _asked("engine_version", "`0.10` for any 0.10.x, `>=0.10` for that or newer."),
    _asked("gpu", "As `nvidia-smi` names it, a compute capability, or `none`."),
    _asked("driver", "Driver version of the GPU."),
    _asked("model", "A model of the registry."),
    _asked("version", "Version of the model: a name, alias or digest prefix; default: the newest."),
    _asked("team", "Only images that releases of this team may use."),
)  # fmt: skip


class Images(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint):
    """Runtime images: what engines run in, by digest, and what they need of a GPU."""

    queryset = RuntimeImage.objects.all()
    serializer_class = serializers.ImageDetailSerializer
    inputs: ClassVar = {
        "create": serializers.NewImageSerializer,
        "partial_update": serializers.ImageChangeSerializer,
        "deprecate": serializers.DeprecationSerializer,
        "reinstate": serializers.ReinstatementSerializer,
        "clear_pull_failure": serializers.ClearedPullFailureSerializer,
        "trials": serializers.NewTrialSerializer,
        "refresh": serializers.RefreshSerializer,
    }
    outputs: ClassVar = {
        "list": serializers.ImageSerializer,
        "fit": serializers.FitSerializer,
        "refresh": serializers.ProposalSerializer,
    }
    parameters: ClassVar = {"fit": tuple(one.name for one in FIT)}
    filterset_class = ImageFilter
    lookup_field = "name"
    lookup_url_kwarg = "image"
    lookup_value_converter = "str"
    sort = ("name", "-created_at", "engine")
    needs: ClassVar = dict.fromkeys(
        ("create", "partial_update", "deprecate", "reinstate", "clear_pull_failure", "trials", "refresh"),
        Right.FLEET_OPERATE,
    )

    def visible(self, rows: QuerySet[RuntimeImage]) -> QuerySet[RuntimeImage]:
        found = selectors.images(self.actor)
        return found if self.action == "list" else found.prefetch_related("trials")

    def create_one(self, given: dict[str, Any]) -> RuntimeImage:
        name = given.pop("team", None)
        team = accounts.team_named(self.actor, name) if name else None
        return services.add_image(actor=self.actor, team=team, **given)

    def change_one(self, instance: RuntimeImage, given: dict[str, Any], expected: int | None) -> RuntimeImage:
        return services.change_image(actor=self.actor, image=instance, expected=expected, **given)

    @extend_schema(responses={200: serializers.ImageDetailSerializer})
    @action(detail=True, methods=["post"])
    def deprecate(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Deprecate: releases use it only if it is named explicitly. Running workers are not affected."""
        given = self.given()
        instead = None
        if name := given.get("replaced_by"):
            try:
                instead = selectors.image_named(self.actor, name)
            except UnknownImage as error:
                raise Invalid(fields={"replaced_by": [str(error)]}) from None
        image = services.deprecate_image(
            actor=self.actor, image=self.get_object(), reason=given["reason"], replaced_by=instead
        )
        return self.answer(image)

    @extend_schema(responses={200: serializers.ImageDetailSerializer})
    @action(detail=True, methods=["post"])
    def reinstate(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Reinstate: releases may select it again."""
        image = services.reinstate_image(actor=self.actor, image=self.get_object(), **self.given())
        return self.answer(image)

    @extend_schema(responses={200: serializers.ImageDetailSerializer})
    @action(detail=True, methods=["post"], url_path="clear-pull-failure")
    def clear_pull_failure(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Clear a failed pull: releases on that cluster may select it again."""
        pulls.clear_pull_failure(actor=self.actor, image=self.get_object(), **self.given())
        return self.answer(self.get_object())

    @extend_schema(responses={200: serializers.ImageDetailSerializer})
    @action(detail=True, methods=["post"])
    def trials(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Record whether it works; the latest result for a GPU and architecture counts."""
        services.note_trial(actor=self.actor, image=self.get_object(), **self.given())
        return self.answer(self.get_object())

    @extend_schema(responses={200: serializers.ProposalSerializer(many=True)})
    @action(detail=False, methods=["post"])
    def refresh(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Read the newest tags of presets from a registry, and add new images if `add`."""
        given = self.given()
        name = given.pop("team", None)
        team = accounts.team_named(self.actor, name) if name else None
        proposals = refresh_images(actor=self.actor, team=team, **given)
        return Response(serializers.ProposalSerializer(proposals, many=True).data)

    @extend_schema(parameters=list(FIT), responses={200: serializers.FitSerializer})
    @action(detail=False)
    def fit(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Image compatibility: the best match, and why the others do not fit."""
        asked = {name: request.query_params.get(name, "") for name in self.parameters["fit"]}
        found = selectors.images(self.actor)
        if name := asked.pop("team"):
            found = selectors.usable_by(accounts.team_named(self.actor, name))
        return Response(self.get_serializer(selectors.chosen(found, wish_of(self.actor, **asked))).data)
