"""What versions reached in evaluations: as their cards tell, and as people and CI record it."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from common.api.examples import example
from common.api.views import ListEndpoint
from common.audit import MAX_REASON
from models_registry.api import comparison_examples as examples
from models_registry.api.serializers import FigureSerializer
from models_registry.api.views import MODEL, VERSION, OfModel
from models_registry.facts.figures import MAX_FIGURES
from models_registry.models import Evaluation, Version
from models_registry.selectors import evaluations, versions
from models_registry.services import evaluations as evaluation_services
from models_registry.services.evaluations import MAX_DATASET, MAX_LINK, MAX_NAME, MAX_UNIT


@example(examples.EVALUATIONS)
class EvaluationsSerializer(serializers.Serializer[Any]):
    version = serializers.CharField()
    figures = FigureSerializer(many=True, help_text="Recorded metrics, then those of the model card.")


class NewFigureSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=MAX_NAME)
    dataset = serializers.CharField(max_length=MAX_DATASET, required=False, allow_blank=True)
    value = serializers.FloatField(allow_null=True, help_text="null removes the metric.")
    unit = serializers.CharField(max_length=MAX_UNIT, required=False, allow_blank=True)
    higher_is_better = serializers.BooleanField(
        source="is_higher_better",
        required=False,
        allow_null=True,
        help_text="Default: as recorded before for this metric.",
    )
    link = serializers.CharField(
        max_length=MAX_LINK, required=False, allow_blank=True, help_text="URL of the evaluation run."
    )


@example(examples.EVALUATIONS_PUT)
class EvaluationsPutSerializer(serializers.Serializer[Any]):
    figures = NewFigureSerializer(many=True, help_text=f"At most {MAX_FIGURES}.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.EVALUATION_ENTRY)
class EvaluationEntrySerializer(serializers.Serializer[Evaluation]):
    """An entry of a version's metric history."""

    name = serializers.CharField()
    dataset = serializers.CharField()
    value = serializers.FloatField(allow_null=True, help_text="null: removed.")
    unit = serializers.CharField()
    higher_is_better = serializers.BooleanField(source="is_higher_better", allow_null=True)
    link = serializers.CharField()
    at = serializers.DateTimeField(source="recorded_at")
    by = serializers.CharField(source="recorded_by")


@extend_schema(parameters=[MODEL, VERSION])
class Evaluations(OfModel, ListEndpoint):
    """Figures of a version. They stand beside it: its files and its digest never change."""

    queryset = Evaluation.objects.all()
    serializer_class = EvaluationEntrySerializer
    inputs = {"update": EvaluationsPutSerializer}
    outputs = {"show": EvaluationsSerializer, "update": EvaluationsSerializer}
    sort = ("-pk",)
    needs: ClassVar = {"update": Right.MODELS_WRITE}

    @property
    def version(self) -> Version:
        return versions.version_named(self.model, self.kwargs["version"])

    def visible(self, rows: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
        return evaluations.evaluations(self.version)

    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Current metrics."""
        return self._shown(self.version)

    def update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Add or update metrics; others are unchanged."""
        version, given = self.version, self.given()
        figures = [evaluation_services.FigureInput(**figure) for figure in given.pop("figures")]
        evaluation_services.evaluate_version(actor=self.actor, version=version, figures=figures, **given)
        return self._shown(version)

    def _shown(self, version: Version) -> Response:
        shown = {"version": str(version), "figures": evaluations.figures(version)}
        return Response(EvaluationsSerializer(shown).data)


ONE = Evaluations.as_view({"get": "show", "put": "update"})
HISTORY = Evaluations.as_view({"get": "list"})
