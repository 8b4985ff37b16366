"""What models, their versions and the store add to the whole."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from common.alert_rules import AlertRule
from common.declared import Manifest
from common.pages.inbox import InboxSource
from common.pages.search import Destination, Search
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.webhooks.catalogue import WebhookEvent
from models_registry import events, metrics
from models_registry.badges import BADGES
from models_registry.hub_panels import export_panel, sync_panel
from models_registry.hub_sources import Repositories
from models_registry.inbox import disk_room, lost_files
from models_registry.panels import register_panel
from models_registry.pruning import HUB_RULES, RULES, STORE_RULES
from models_registry.reconcilers.checks import CheckReconciler
from models_registry.reconcilers.collections import CollectionReconciler
from models_registry.reconcilers.exports import ExportReconciler
from models_registry.reconcilers.findings import FindingReconciler
from models_registry.reconcilers.hubs import HubSourceReconciler, HubSyncReconciler
from models_registry.reconcilers.keeper import StoreKeeperReconciler
from models_registry.reconcilers.repair import repair
from models_registry.reconcilers.retention import RetentionReconciler
from models_registry.reconcilers.uploads import UploadReconciler
from models_registry.reconcilers.versions import VersionReconciler
from models_registry.references import register_references
from models_registry.repairs import register_repair
from models_registry.search import find_models
from models_registry.sources import register_source_kind
from models_registry.states import FindingState
from models_registry.stored import UPLOADS, VERSIONS
from models_registry.stored_exports import EXPORTS
from models_registry.webhook_events import alias_move_payload, version_payload

SUBJECTS = (
    Subject("models_registry.model", _("Model"), "/models/{name}/"),
    Subject("models_registry.version", _("Version"), "/models/{model__name}/{name}/", badges="version"),
    Subject("models_registry.alias", _("Alias"), "/models/{model__name}/+aliases/"),
    Subject("models_registry.hubsource", _("Hub source"), "/models/{model__name}/+hub/{pk}/"),
    Subject(
        "models_registry.hubsync",
        _("Sync"),
        "/models/{source__model__name}/+syncs/{pk}/",
        title=_("Sync of %(source__repo_id)s@%(source__ref)s"),
        badges="sync",
    ),
    Subject(
        "models_registry.export",
        _("Export"),
        "/models/{version__model__name}/+exports/{pk}/",
        title=_("Export of %(version__model__name)s:%(version__name)s"),
        badges="export",
    ),
    Subject(
        "models_registry.retentionrule",
        _("Retention rule"),
        "/models/{model__name}/+retention/",
        title=_("Retention rule of %(model__name)s"),
    ),
    Subject(
        "models_registry.upload",
        _("Upload"),
        "/models/{model__name}/",
        title=_("Upload %(pk)s to %(model__name)s"),
        badges="upload",
    ),
    Subject(
        "models_registry.storekeeper",
        _("Store maintenance"),
        "/models/+store/",
        title=_("Store maintenance"),
    ),
    Subject(
        "models_registry.collection",
        _("Garbage collection"),
        "/models/+store/",
        title=_("Garbage collection %(pk)s"),
        badges="run",
    ),
    Subject(
        "models_registry.check",
        _("Integrity check"),
        "/models/+store/",
        title=_("Integrity check %(pk)s"),
        badges="run",
    ),
    Subject(
        "models_registry.finding",
        _("Damaged file"),
        "/models/+store/",
        title=_("Damaged file %(sha256)s"),
        badges="finding",
    ),
    # The store's page shows it: who offers the page names it.
    Subject(
        "common.pruning",
        _("Deletion of old records"),
        "/models/+store/",
        title=_("Deletion of old records"),
    ),
    Subject("models_registry.trustedkey", _("Trusted key"), "/settings/teams/{team__name}/signatures/"),
    Subject(
        "models_registry.signaturepolicy", _("Signature policy"), "/settings/teams/{team__name}/signatures/"
    ),
    Subject("models_registry.codeexemption", _("Exemption"), "/settings/teams/{team__name}/code/"),
    Subject("models_registry.storagequota", _("Storage limit"), "/settings/teams/{team__name}/storage/"),
)
DESTINATIONS = (
    Destination(
        title=_("New model"),
        url="/models/+new/",
        icon="box",
        words="create add",
        right=Right.MODELS_WRITE,
        is_command=True,
    ),
    Destination(title=_("Models"), url="/models/", icon="box", words="registry versions"),
    Destination(
        title=_("Store"),
        url="/models/+store/",
        icon="database",
        words="disk garbage collection integrity",
        is_for_admins=True,
    ),
)
WEBHOOK_EVENTS = (
    *(
        WebhookEvent(name, description, version_payload, on)
        for name, description, on in (
            ("version.ready", _("A version was imported and may be released."), events.VersionReady),
            ("version.archived", _("A version was archived: it cannot be released."), events.VersionArchived),
            ("version.restored", _("An archived version was restored."), events.VersionRestored),
            ("version.failed", _("The import of a version failed."), events.VersionFailed),
            ("version.refused", _("A version was refused because of its content."), events.VersionRefused),
            ("version.deleted", _("A version was deleted."), events.VersionDeleted),
        )
    ),
    WebhookEvent(
        "version.exported",
        _("A version was exported to a hub or another Slipway."),
        version_payload,
        events.VersionExported,
    ),
    WebhookEvent(
        "alias.moved",
        _("An alias was moved to another version."),
        alias_move_payload,
        events.AliasMoved,
        ids=("move_id",),
    ),
)
ALERT_RULES = (
    AlertRule(
        name="SlipwayFilesLost",
        expr='slipway_store_findings{state="lost"} > 0',
        severity="critical",
        summary="{{ $value }} files of the model store are lost.",
    ),
)
MANIFEST = Manifest(
    reconcilers=(
        VersionReconciler(),
        HubSourceReconciler(),
        HubSyncReconciler(),
        ExportReconciler(),
        RetentionReconciler(),
        StoreKeeperReconciler(),
        CollectionReconciler(),
        CheckReconciler(),
        FindingReconciler(),
        UploadReconciler(),
    ),
    subjects=SUBJECTS,
    badges=BADGES,
    inbox=(
        InboxSource(find=lost_files, tells=(("models_registry.finding", FindingState.LOST),)),
        InboxSource(find=disk_room),
    ),
    nav=(NavItem(name=_("Models"), path="/models/", icon="box", rank=20, key="m", follows_changes=True),),
    search=(Search(_("Models"), find_models),),
    destinations=DESTINATIONS,
    nouns={
        "collections": lambda count: ngettext("collection", "collections", count),
        "exemptions": lambda count: ngettext("exemption", "exemptions", count),
        "exports": lambda count: ngettext("export", "exports", count),
        "keys": lambda count: ngettext("key", "keys", count),
        "models": lambda count: ngettext("model", "models", count),
        "moves": lambda count: ngettext("move", "moves", count),
        "syncs": lambda count: ngettext("sync", "syncs", count),
        "versions": lambda count: ngettext("version", "versions", count),
    },
    webhook_events=WEBHOOK_EVENTS,
    metrics=(metrics.store_findings,),
    alert_rules=ALERT_RULES,
    pruning=(*RULES, *HUB_RULES, *STORE_RULES),
    hooks=(
        partial(register_source_kind, Repositories()),
        partial(register_panel, sync_panel),
        partial(register_panel, export_panel),
        partial(register_repair, repair),
        partial(register_references, VERSIONS),
        partial(register_references, UPLOADS),
        partial(register_references, EXPORTS),
    ),
)
