"""What freezes add to the whole."""

from django.utils.translation import gettext_lazy as _

from accounts.states import Right
from common.choices import ChoiceSet
from common.configuration import ConfigurationKind
from common.declared import AppManifest
from common.pages.search import SearchDestination
from common.pages.subjects import Subject
from common.webhooks.catalogue import EventPayload, Ids, WebhookEventType
from freezes.events import FreezeChanged
from freezes.models import Freeze
from freezes.states import FreezeEffect


def freeze_payload(ids: Ids) -> EventPayload | None:
    row = Freeze.objects.select_related("cluster").filter(pk=ids["freeze_id"]).first()
    if row is None:
        return None
    document = {
        "id": row.pk,
        "name": row.name,
        "service": row.service,
        "stage": row.stage,
        "cluster": row.cluster.name if row.cluster else None,
        "is_stop": row.is_stop,
        "reason": row.reason,
        "ended_by": row.ended_by,
    }
    return EventPayload(row.team_id, {**ids, "freeze": document})


MANIFEST = AppManifest(
    subjects=(Subject("freezes.freeze", _("Freeze"), "/releases/freezes/"),),
    choices=(ChoiceSet(FreezeEffect, schema="FreezeEffect"),),
    destinations=(
        SearchDestination(
            title=_("Freezes"),
            url="/releases/freezes/",
            icon="snowflake",
            words="window calendar stop",
        ),
        SearchDestination(
            title=_("Stop releases"),
            url="/releases/freezes/+stop/",
            icon="hand-stop",
            words="stop the line emergency",
            right=Right.FREEZES_STOP,
            is_command=True,
        ),
        SearchDestination(
            title=_("New freeze window"),
            url="/releases/freezes/+new/",
            icon="snowflake",
            right=Right.FREEZES_WRITE,
            is_command=True,
        ),
    ),
    webhook_events=(
        WebhookEventType(
            "freeze.changed",
            _("A freeze window or a stop was made, changed or ended."),
            freeze_payload,
            FreezeChanged,
            without_team_for_all=True,
        ),
    ),
    webhook_heading=_("Releases"),
    configuration=(
        ConfigurationKind(
            "freeze",
            routes="freeze",
            lookup="pk",
            found_in_list=True,
            takes_reason=False,
            is_exported=lambda row: row["minutes"] is not None,
        ),
    ),
)
