"""Benchmarks and where they show."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from benchmarks.events import BenchmarkBudgetSpent, BenchmarkEnded
from benchmarks.gpu_needs import of_benchmarks
from benchmarks.models import BenchmarkRecords
from benchmarks.reconcilers.benchmarks import BenchmarkReconciler
from benchmarks.reconcilers.cleanup import CleanupReconciler
from benchmarks.reconcilers.custom_resources import ResourcesReconciler
from benchmarks.reconcilers.runs import RunReconciler
from benchmarks.record_store import RECORDS
from benchmarks.search_box import find
from benchmarks.states import BenchmarkState, LoadEngineKind, ObjectiveKind, PriorKind, RunState, Strategy
from benchmarks.webhook_events import benchmark_payload
from clusters.gpu_needs import register_need_source
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.badges import Badge
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.reconcile.pruning import PruningRule
from common.webhooks.catalogue import WebhookEventType
from model_store.references import register_references

MANIFEST = AppManifest(
    reconcilers=(BenchmarkReconciler(), RunReconciler(), CleanupReconciler(), ResourcesReconciler()),
    subjects=(
        Subject("benchmarks.benchmark", _("Benchmark"), "/benchmarks/{pk}/", badges="benchmark"),
        Subject(
            "benchmarks.benchmarkrun",
            _("Benchmark run"),
            "/benchmarks/{benchmark_id}/",
            badges="benchmark_run",
        ),
        Subject("benchmarks.benchmarkcleanup", _("Cleanup of benchmarks"), "/benchmarks/"),
        Subject("benchmarks.benchmarkresources", _("Custom resources of benchmarks"), "/benchmarks/"),
    ),
    choices=(
        ChoiceSet(BenchmarkState, badges="benchmark", schema="BenchmarkState"),
        ChoiceSet(RunState, badges="benchmark_run"),
        ChoiceSet(PriorKind),
        ChoiceSet(Strategy),
        ChoiceSet(ObjectiveKind),
        ChoiceSet(LoadEngineKind),
    ),
    badges={
        "benchmark": {
            "running": Badge(_("Running"), "busy", "player-play"),
            "cancelling": Badge(_("Cancelling"), "busy", "player-stop"),
            "finished": Badge(_("Finished"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "circle-x"),
            "cancelled": Badge(_("Cancelled"), "idle", "ban"),
        },
        "benchmark_run": {
            "waiting": Badge(_("Waiting"), "idle", "clock"),
            "deploying": Badge(_("Deploying"), "busy", "server-bolt"),
            "measuring": Badge(_("Measuring"), "busy", "gauge"),
            "collecting": Badge(_("Collecting"), "busy", "download"),
            "removing": Badge(_("Removing"), "busy", "trash"),
            "valid": Badge(_("Valid"), "good", "circle-check"),
            "invalid": Badge(_("Invalid"), "warn", "alert-triangle"),
            "failed": Badge(_("Failed"), "bad", "circle-x"),
            "cancelled": Badge(_("Cancelled"), "idle", "ban"),
        },
    },
    nav=(NavItem(name=_("Benchmarks"), path="/benchmarks/", icon="gauge", rank=22, follows_changes=True),),
    search=(SearchSource(_("Benchmarks"), find),),
    destinations=(
        SearchDestination(title=_("Benchmarks"), url="/benchmarks/", icon="gauge"),
        SearchDestination(
            title=_("New benchmark"),
            url="/benchmarks/+new/",
            icon="gauge",
            right=Right.BENCHMARKS_WRITE,
            is_command=True,
        ),
    ),
    nouns={"benchmarks": lambda count: ngettext("benchmark", "benchmarks", count)},
    pruning=(
        PruningRule(
            BenchmarkRecords,
            _("Request records of benchmarks"),
            "SLIPWAY_KEEP_BENCHMARK_RECORDS_DAYS",
            lambda before: BenchmarkRecords.objects.filter(created_at__lt=before).order_by("pk"),
            kept=_("Figures stay."),
        ),
    ),
    webhook_events=(
        WebhookEventType(
            "benchmark.ended",
            _("A benchmark finished, failed or was cancelled."),
            benchmark_payload,
            BenchmarkEnded,
        ),
        WebhookEventType(
            "benchmark.budget_spent",
            _("A benchmark starts no more runs: its budget or its team's GPU hours are spent."),
            benchmark_payload,
            BenchmarkBudgetSpent,
        ),
    ),
    webhook_heading=_("Benchmarks"),
    hooks=(
        lambda: register_references(RECORDS),
        lambda: register_need_source("benchmarks", of_benchmarks),
    ),
)
