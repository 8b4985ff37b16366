"""What webhooks tell of releases, with REST's documents."""

from common.models import AuditRecord
from common.webhooks.catalogue import EventPayload, Ids
from releases.api.serializers.releases import ReleaseSerializer
from releases.models import Release
from releases.succession import with_succession


def release_payload(ids: Ids) -> EventPayload | None:
    rows = (
        with_succession(Release.objects.all())
        .select_related("team", "service__model", "version__model", "from_version__model", "image")
        .prefetch_related("steps", "approvals__by")
    )
    release = rows.filter(pk=ids["release_id"]).first()
    if release is None:
        return None
    return EventPayload(release.team_id, {**ids, "release": ReleaseSerializer(release).data})


def lowering_payload(ids: Ids) -> EventPayload | None:
    row = AuditRecord.objects.filter(seq=ids["audit_seq"]).first()
    if row is None:
        return None
    shown = {"subject": row.subject_label, "by": row.actor, "reason": row.reason, **row.detail}
    return EventPayload(row.team_id, {**ids, **shown})
