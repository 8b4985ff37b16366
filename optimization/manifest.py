"""Optimised versions and where they show."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, ngettext

from accounts.states import Right
from benchmarks.selectors import register_gpu_hours
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.badges import Badge
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.webhooks.catalogue import WebhookEventType
from model_store.references import register_references
from models_registry.importing.sources import register_source_kind
from models_registry.panels import register_panel
from models_registry.references import VersionReferences, register_uses
from optimization.events import OptimizationEnded
from optimization.metrics import optimizations_by_state
from optimization.models import OptimizationRun
from optimization.output import SCORES_KEPT, OptimizationOutputs
from optimization.panels import version_panel
from optimization.reconcilers.runs import OptimizationReconciler
from optimization.search_box import find
from optimization.selectors import gpu_hours
from optimization.states import ENDED, AccuracyResult, OptimizationState, RunPlace
from optimization.webhook_events import optimization_payload

VERSIONS_OF_RUNS = tuple(
    VersionReferences(
        OptimizationRun.objects.exclude(state__in=ENDED).exclude(**{column: None}),
        column,
        f"{column}__model",
        gettext_noop("optimised version {}"),
        ("name",),
    )
    for column in ("parent", "child", "test_version", "calibration_version")
)

MANIFEST = AppManifest(
    reconcilers=(OptimizationReconciler(),),
    subjects=(
        Subject(
            "optimization.optimizationrun",
            _("Optimised version"),
            "/optimizations/{pk}/",
            badges="optimization",
        ),
    ),
    choices=(
        ChoiceSet(OptimizationState, badges="optimization", schema="OptimizationState"),
        ChoiceSet(AccuracyResult, badges="accuracy"),
        ChoiceSet(RunPlace, schema="OptimizationPlace"),
    ),
    badges={
        "optimization": {
            "preparing": Badge(_("Preparing"), "busy", "clipboard-check"),
            "running": Badge(_("Running"), "busy", "player-play"),
            "storing": Badge(_("Storing"), "busy", "database-import"),
            "checking": Badge(_("Checking accuracy"), "busy", "target"),
            "benchmarking": Badge(_("Benchmarking"), "busy", "gauge"),
            "cancelling": Badge(_("Cancelling"), "busy", "player-stop"),
            "passed": Badge(_("Passed"), "good", "circle-check"),
            "rejected": Badge(_("Rejected"), "bad", "circle-x"),
            "needs_items": Badge(_("Needs more items"), "warn", "alert-triangle"),
            "failed": Badge(_("Failed"), "bad", "circle-x"),
            "cancelled": Badge(_("Cancelled"), "idle", "ban"),
        },
        "accuracy": {
            "passed": Badge(_("Passed"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "circle-x"),
            "needs_items": Badge(_("Needs more items"), "warn", "alert-triangle"),
        },
    },
    nav=(
        NavItem(
            name=_("Optimised versions"),
            path="/optimizations/",
            icon="arrows-minimize",
            rank=24,
            follows_changes=True,
        ),
    ),
    search=(SearchSource(_("Optimised versions"), find),),
    destinations=(
        SearchDestination(title=_("Optimised versions"), url="/optimizations/", icon="arrows-minimize"),
        SearchDestination(
            title=_("New optimised version"),
            url="/optimizations/+new/",
            icon="arrows-minimize",
            right=Right.OPTIMIZATIONS_WRITE,
            is_command=True,
        ),
    ),
    nouns={"optimizations": lambda count: ngettext("optimised version", "optimised versions", count)},
    metrics=(optimizations_by_state,),
    webhook_events=(
        WebhookEventType(
            "optimization.ended",
            _("An optimised version passed, was rejected, needs more items, failed or was cancelled."),
            optimization_payload,
            OptimizationEnded,
        ),
    ),
    webhook_heading=_("Optimised versions"),
    hooks=(
        partial(register_references, SCORES_KEPT),
        partial(register_source_kind, OptimizationOutputs()),
        partial(register_panel, version_panel),
        partial(register_gpu_hours, gpu_hours),
        *(partial(register_uses, one) for one in VERSIONS_OF_RUNS),
    ),
)
