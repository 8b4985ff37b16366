from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from configuration.applying import drift_of
from configuration.models import AppliedDocument
from configuration.states import AppliedAction

MOST = 500
PLAN = {
    "kind": "freeze",
    "name": "Weekends",
    "team": "speech",
    "spec": {"starts_at": "2026-11-27T17:00:00Z", "minutes": 3720, "recurrence": "FREQ=WEEKLY;BYDAY=FR"},
}
CHANGE = {"field": "minutes", "before": 3600, "after": 3720}


@example(PLAN)
class ConfigurationDocumentSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=100, required=False)
    team = serializers.CharField(
        max_length=63,
        required=False,
        allow_null=True,
        help_text="Owner; default: the team of the set; null: all teams.",
    )
    spec = serializers.DictField(help_text="Fields as the REST route of the kind takes them.")


class FileSetSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=63, help_text="Owner of the set.")
    file_set = serializers.SlugField(
        max_length=63, default="default", help_text="Name of the set; an object belongs to one set."
    )
    documents = serializers.ListField(child=ConfigurationDocumentSerializer(), max_length=MOST)
    dry_run = serializers.BooleanField(
        default=False, help_text="Only answer the changes; nothing is changed."
    )
    prune = serializers.BooleanField(
        default=False, help_text="Remove objects of the set that are not among the documents."
    )
    overwrite = serializers.BooleanField(
        default=False, help_text="Undo what people changed since the set was applied last."
    )
    reason = serializers.CharField(
        max_length=MAX_REASON, default="", allow_blank=True, help_text="Reason; recorded in the audit log."
    )


@example({"team": "speech", "file_set": "default", "documents": [PLAN], "dry_run": True})
class ApplySerializer(FileSetSerializer):
    """A set of documents to apply."""


class FieldChangeSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class AppliedChangeSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    name = serializers.CharField()
    team = serializers.CharField(help_text="Empty: all teams.")
    action = serializers.ChoiceField(choices=AppliedAction.choices)
    changes = FieldChangeSerializer(many=True)
    drift = FieldChangeSerializer(
        many=True, help_text="Fields that people changed since: from what was applied to what is."
    )


RESULT = {
    **{name: PLAN[name] for name in ("kind", "name", "team")},
    "action": "changed",
    "changes": [CHANGE],
    "drift": [],
}


@example({"dry_run": True, "results": [RESULT]})
class ApplyResultSerializer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    results = AppliedChangeSerializer(many=True)


@example({"documents": [PLAN]})
class ConfigurationExportSerializer(serializers.Serializer[Any]):
    documents = ConfigurationDocumentSerializer(many=True)


@example({"kind": "freeze", "team": "speech"})
class ConfigurationQuerySerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(required=False, help_text="Only of this kind.")
    team = serializers.CharField(required=False, help_text="Only of this team.")


@example(
    {
        "id": 3,
        "team": "speech",
        "file_set": "default",
        "kind": "freeze",
        "name": "Weekends",
        "owner": "speech",
        "applied_by": "ci",
        "applied_at": "2026-11-27T08:00:00Z",
    }
)
class AppliedDocumentSerializer(serializers.ModelSerializer[AppliedDocument]):
    team = serializers.CharField(source="team.name")

    class Meta:
        model = AppliedDocument
        fields: tuple[str, ...] = (
            *("id", "team", "file_set", "kind", "name", "owner", "applied_by", "applied_at"),
        )


@example(
    {
        **{"id": 3, "team": "speech", "file_set": "default", "kind": "freeze", "name": "Weekends"},
        **{"owner": "speech", "applied_by": "ci", "applied_at": "2026-11-27T08:00:00Z"},
        **{"spec": PLAN["spec"], "drift": [CHANGE]},
    }
)
class AppliedDocumentDetailSerializer(AppliedDocumentSerializer):
    spec = serializers.DictField(source="document", help_text="Fields as they were applied.")
    drift = serializers.SerializerMethodField(
        help_text="Fields that people changed since; null: the object is gone, or you may not see it."
    )

    class Meta(AppliedDocumentSerializer.Meta):
        fields = (*AppliedDocumentSerializer.Meta.fields, "spec", "drift")

    @extend_schema_field(FieldChangeSerializer(many=True, allow_null=True))
    def get_drift(self, row: AppliedDocument) -> Any:
        drift = drift_of(row, self.context["request"]._request)
        return None if drift is None else FieldChangeSerializer(drift, many=True).data
