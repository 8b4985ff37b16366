"""The manifest of the app model_store."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.health import HealthProbe, Unhealthy
from common.pages.inbox import InboxSource
from common.pages.search import SearchDestination
from common.pages.subjects import Subject
from model_store import blob_store, metrics, states
from model_store.alert_checks import ALERT_CHECKS
from model_store.badges import BADGES
from model_store.inbox import disk_room, lost_files
from model_store.pruning import RULES
from model_store.reconcilers.checks import StoreCheckReconciler
from model_store.reconcilers.collections import CollectionReconciler
from model_store.reconcilers.corrupt_blobs import CorruptBlobReconciler
from model_store.reconcilers.host_caches import ModelDirectoryReconciler
from model_store.reconcilers.maintenance import StoreScheduleReconciler
from model_store.sharing import why_not_shared
from model_store.states import CorruptBlobState

SUBJECTS = (
    Subject(
        "model_store.storeschedule",
        _("Store maintenance"),
        "/models/+store/",
        title=_("Store maintenance"),
    ),
    Subject(
        "model_store.collection",
        _("Garbage collection"),
        "/models/+store/",
        title=_("Garbage collection %(pk)s"),
        badges="run",
    ),
    Subject(
        "model_store.check",
        _("Integrity check"),
        "/models/+store/",
        title=_("Integrity check %(pk)s"),
        badges="run",
    ),
    Subject(
        "model_store.corruptblob",
        _("Damaged file"),
        "/models/+store/",
        title=_("Damaged file %(sha256)s"),
        badges="finding",
    ),
    Subject(
        "model_store.modeldirectoryhost",
        _("Versions on a host"),
        "/models/+store/",
        title=_("Versions on the host %(host)s"),
    ),
    # The store's page shows it: who offers the page names it.
    Subject(
        "common.pruning",
        _("Deletion of old records"),
        "/models/+store/",
        title=_("Deletion of old records"),
    ),
    Subject("model_store.storagequota", _("Storage limit"), "/settings/teams/{team__name}/storage/"),
)
DESTINATIONS = (
    SearchDestination(
        title=_("Store"),
        url="/models/+store/",
        icon="database",
        words="disk garbage collection integrity",
        right=Right.FLEET_OPERATE,
        is_for_admins=True,
    ),
)


def _health() -> str:
    if why := why_not_shared():
        raise Unhealthy(why)
    found = blob_store.store().look()
    return f"{found.kind} {found.where}"


CHOICES = (
    ChoiceSet(states.CorruptBlobState, badges="finding", schema="FindingState"),
    ChoiceSet(states.RunState, badges="run", schema="RunState"),
)
MANIFEST = AppManifest(
    alert_checks=ALERT_CHECKS,
    choices=CHOICES,
    reconcilers=(
        StoreScheduleReconciler(),
        CollectionReconciler(),
        StoreCheckReconciler(),
        CorruptBlobReconciler(),
        ModelDirectoryReconciler(),
    ),
    subjects=SUBJECTS,
    badges=BADGES,
    inbox=(
        InboxSource(find=lost_files, tells=(("model_store.corruptblob", CorruptBlobState.LOST),)),
        InboxSource(find=disk_room),
    ),
    destinations=DESTINATIONS,
    nouns={
        "collections": lambda count: ngettext("collection", "collections", count),
    },
    metrics=(metrics.store_findings,),
    probes=(HealthProbe("store", _health, vital=False, title=_("Store")),),
    pruning=RULES,
)
