from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors
from accounts.api import examples
from accounts.filters import AuditFilter
from accounts.services import rights
from accounts.states import Right
from common import audit
from common.api.examples import example
from common.api.views import Endpoint, ListEndpoint
from common.models import AuditRecord


@example(examples.AUDIT_RECORD)
class AuditRecordSerializer(serializers.ModelSerializer[AuditRecord]):
    class Meta:
        model = AuditRecord
        fields = (
            "seq", "at", "actor", "via", "address", "action", "subject_kind", "subject_id", "subject_label",
            "team_id", "reason", "detail", "previous_hash", "hash", "key_id", "signature",
        )  # fmt: skip


@example(examples.AUDIT_VERDICT)
class AuditVerdictSerializer(serializers.Serializer[Any]):
    intact = serializers.BooleanField()
    checked = serializers.IntegerField(help_text="Rows whose hash was verified.")
    proven = serializers.CharField(help_text="What is proven and what is not, as text.")
    head_hash = serializers.CharField(help_text="Hash of the last valid row; keep a copy elsewhere.")
    anchored_seq = serializers.IntegerField(
        allow_null=True, help_text="The last row whose exported head matches; null: no head was compared."
    )
    anchored_at = serializers.DateTimeField(allow_null=True, help_text="Export time of that head.")
    signed_until = serializers.IntegerField(help_text="The last valid and signed row; 0: none.")
    broken_seq = serializers.IntegerField(allow_null=True, help_text="The first invalid row.")
    broken_reason = serializers.CharField()


class AuditTrail(ListEndpoint):
    """Who did what, when, from where: an append-only hash chain. For auditors of a team, its part."""

    queryset = AuditRecord.objects.all()
    serializer_class = AuditRecordSerializer
    filterset_class = AuditFilter
    sort = ("-seq",)

    def visible(self, rows: QuerySet[AuditRecord]) -> QuerySet[AuditRecord]:
        rights.require(self.actor, Right.AUDIT_READ)
        return selectors.audit_records(self.actor)


class AuditVerdict(Endpoint):
    queryset = AuditRecord.objects.all()
    serializer_class = AuditVerdictSerializer
    pagination_class = None

    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Recompute the whole chain, verify its signatures, and compare it with the exported heads."""
        rights.require(self.actor, Right.AUDIT_READ)
        found = audit.verify()
        shown = {
            "intact": found.intact,
            "checked": found.checked,
            "proven": found.proven,
            "anchored_seq": found.anchor.seq if found.anchor else None,
            "anchored_at": found.anchor.at if found.anchor else None,
            "signed_until": found.signed_until,
            "head_hash": found.head_hash,
            "broken_seq": found.broken.seq if found.broken else None,
            "broken_reason": found.broken.reason if found.broken else "",
        }
        return Response(self.get_serializer(shown).data)
