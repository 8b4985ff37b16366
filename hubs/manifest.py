"""What sources on hubs, syncs and exports add to the whole."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.choices import ChoiceSet
from common.declared import AppManifest
from common.events import Subscription
from common.pages.subjects import Subject
from common.resealing import SealedColumn
from common.webhooks.catalogue import WebhookEventType
from hubs import events, import_source, states
from hubs.badges import BADGES
from hubs.blob_references import EXPORTS
from hubs.import_source import Repositories
from hubs.models import Export, HubSource
from hubs.panels import export_panel, sync_panel
from hubs.pruning import RULES
from hubs.reconcilers.exports import ExportReconciler
from hubs.reconcilers.syncs import HubSourceReconciler, HubSyncReconciler
from hubs.services import exports
from hubs.subscribers import forget_sources
from model_store.references import register_references
from models_registry.events import ModelDeleted
from models_registry.importing.sources import register_source_kind
from models_registry.panels import register_panel
from models_registry.webhook_events import version_payload

SUBJECTS = (
    Subject("hubs.hubsource", _("Hub source"), "/models/{model__name}/+hub/{pk}/"),
    Subject(
        "hubs.hubsync",
        _("Sync"),
        "/models/{source__model__name}/+syncs/{pk}/",
        title=_("Sync of %(source__repo_id)s@%(source__ref)s"),
        badges="transfer",
    ),
    Subject(
        "hubs.export",
        _("Export"),
        "/models/{version__model__name}/+exports/{pk}/",
        title=_("Export of %(version__model__name)s:%(version__name)s"),
        badges="transfer",
    ),
)
WEBHOOK_EVENTS = (
    WebhookEventType(
        "version.exported",
        _("A version was exported to a hub or another Slipway."),
        version_payload,
        events.VersionExported,
    ),
)
CHOICES = (
    ChoiceSet(states.SyncFailureCause),
    ChoiceSet(states.EXPORT_STATES, schema="ExportState"),
    ChoiceSet(states.ExportKind, schema="ExportKind"),
    ChoiceSet(states.HubKind, schema="HubKind"),
    ChoiceSet(states.SYNC_STATES, schema="SyncState"),
    ChoiceSet(states.TransferState, badges="transfer"),
)
MANIFEST = AppManifest(
    choices=CHOICES,
    witnesses=(Subscription(ModelDeleted, forget_sources),),
    sealed=(
        SealedColumn(Export, "sealed_token", exports.PURPOSE),
        SealedColumn(HubSource, "sealed_token", import_source.PURPOSE),
    ),
    reconcilers=(
        HubSourceReconciler(),
        HubSyncReconciler(),
        ExportReconciler(),
    ),
    subjects=SUBJECTS,
    badges=BADGES,
    nouns={
        "exports": lambda count: ngettext("export", "exports", count),
        "syncs": lambda count: ngettext("sync", "syncs", count),
    },
    webhook_events=WEBHOOK_EVENTS,
    webhook_heading=_("Models"),
    pruning=RULES,
    hooks=(
        partial(register_source_kind, Repositories()),
        partial(register_panel, sync_panel),
        partial(register_panel, export_panel),
        partial(register_references, EXPORTS),
    ),
)
