"""What models and their versions add to the whole."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.events import Subscription
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.webhooks.catalogue import WebhookEventType
from model_store.references import register_references
from model_store.repairs import register_repair
from models_registry import events, states
from models_registry.badges import BADGES
from models_registry.blob_references import UPLOADS, VERSIONS
from models_registry.facts.comparison import CHANGES
from models_registry.pruning import RULES
from models_registry.reconcilers.repair import repair
from models_registry.reconcilers.retention import RetentionReconciler
from models_registry.reconcilers.uploads import UploadReconciler
from models_registry.reconcilers.versions import VersionReconciler
from models_registry.search import find_models
from models_registry.subscribers import verify_signatures
from models_registry.webhook_events import alias_move_payload, version_payload
from trust.events import KeyTrusted

SUBJECTS = (
    Subject("models_registry.model", _("Model"), "/models/{name}/"),
    Subject("models_registry.version", _("Version"), "/models/{model__name}/{name}/", badges="version"),
    Subject("models_registry.alias", _("Alias"), "/models/{model__name}/+aliases/"),
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
    Subject("models_registry.codeexemption", _("Exemption"), "/settings/teams/{team__name}/code/"),
)
DESTINATIONS = (
    SearchDestination(
        title=_("New model"),
        url="/models/+new/",
        icon="box",
        words="create add",
        right=Right.MODELS_WRITE,
        is_command=True,
    ),
    SearchDestination(title=_("Models"), url="/models/", icon="box", words="registry versions"),
)
WEBHOOK_EVENTS = (
    *(
        WebhookEventType(name, description, version_payload, on)
        for name, description, on in (
            ("version.ready", _("A version was imported and may be released."), events.VersionReady),
            ("version.archived", _("A version was archived: it cannot be released."), events.VersionArchived),
            ("version.restored", _("An archived version was restored."), events.VersionRestored),
            ("version.failed", _("The import of a version failed."), events.VersionFailed),
            ("version.refused", _("A version was refused because of its content."), events.VersionRefused),
            ("version.deleted", _("A version was deleted."), events.VersionDeleted),
        )
    ),
    WebhookEventType(
        "alias.moved",
        _("An alias was moved to another version."),
        alias_move_payload,
        events.AliasMoved,
        ids=("move_id",),
    ),
)
CHOICES = (
    ChoiceSet(states.SignatureOrigin),
    ChoiceSet(states.UploadState, badges="upload", schema="UploadState"),
    ChoiceSet(states.VersionState, badges="version", schema="VersionState"),
    ChoiceSet(CHANGES, schema="Change"),
)
MANIFEST = AppManifest(
    choices=CHOICES,
    witnesses=(Subscription(KeyTrusted, verify_signatures),),
    reconcilers=(
        VersionReconciler(),
        RetentionReconciler(),
        UploadReconciler(),
    ),
    subjects=SUBJECTS,
    badges=BADGES,
    nav=(NavItem(name=_("Models"), path="/models/", icon="box", rank=20, key="m", follows_changes=True),),
    search=(SearchSource(_("Models"), find_models),),
    destinations=DESTINATIONS,
    nouns={
        "exemptions": lambda count: ngettext("exemption", "exemptions", count),
        "models": lambda count: ngettext("model", "models", count),
        "moves": lambda count: ngettext("move", "moves", count),
        "versions": lambda count: ngettext("version", "versions", count),
    },
    webhook_events=WEBHOOK_EVENTS,
    webhook_heading=_("Models"),
    pruning=RULES,
    hooks=(
        partial(register_repair, repair),
        partial(register_references, VERSIONS),
        partial(register_references, UPLOADS),
    ),
)
