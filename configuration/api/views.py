from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from common.api.views import DestroyEndpoint, ListEndpoint, RetrieveEndpoint
from configuration.api import serializers
from configuration.applying import FileSet
from configuration.exporting import exported
from configuration.filters import AppliedDocumentFilter
from configuration.models import AppliedDocument
from configuration.services import forget_document


class Configuration(ListEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """Objects that a team keeps as files: what was applied, and what people changed since."""

    queryset = AppliedDocument.objects.select_related("team")
    serializer_class = serializers.AppliedDocumentSerializer
    outputs: ClassVar = {"retrieve": serializers.AppliedDocumentDetailSerializer}
    inputs: ClassVar = {"apply": serializers.ApplySerializer}
    parameters: ClassVar = {"export": ("kind", "team")}
    filterset_class = AppliedDocumentFilter
    lookup_value_converter = "int"
    sort = ("kind", "-applied_at")
    needs: ClassVar = dict.fromkeys(("apply", "destroy"), Right.SERVICES_WRITE)

    def visible(self, rows: QuerySet[AppliedDocument]) -> QuerySet[AppliedDocument]:
        return rows.filter(pk__in=AppliedDocument.objects.for_actor(self.actor))

    def delete_one(self, instance: AppliedDocument, expected: int | None, reason: str) -> None:
        forget_document(instance, actor=self.actor, reason=reason)

    @extend_schema(responses=serializers.ApplyResultSerializer)
    @action(detail=False, methods=["post"])
    def apply(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Make objects as a set of documents wants them, all or none."""
        given = self.given()
        files = FileSet(
            request=request._request,
            team=team_named(self.actor, given["team"]),
            name=given["file_set"],
            **{name: given[name] for name in ("reason", "overwrite", "dry_run", "prune")},
        )
        shown = {"dry_run": given["dry_run"], "results": files.apply(given["documents"])}
        return Response(serializers.ApplyResultSerializer(shown).data)

    @extend_schema(
        parameters=[serializers.ConfigurationQuerySerializer],
        responses=serializers.ConfigurationExportSerializer,
        filters=False,
    )
    @action(detail=False, methods=["get"])
    def export(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Get objects as documents, as they would be applied."""
        query = serializers.ConfigurationQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        given = query.validated_data
        found = exported(request._request, only=given.get("kind", ""), team=given.get("team", ""))
        return Response(serializers.ConfigurationExportSerializer({"documents": list(found)}).data)
