"""Runs and recipes as JSON documents, for programs: `schema` rises when a field changes its meaning."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import get_language

from optimization.accuracy import in_percent, margin_percent
from optimization.budgets import batch_document
from optimization.family import FamilyMember
from optimization.models import AccuracyCheck, AccuracyVerdict, OptimizationRun
from optimization.planning import RunPlan
from optimization.recipes import OptimizationRecipe, Words
from optimization.verdicts import measured_on

SCHEMA = 1


def in_language(words: Words) -> str:
    """Return the text in the reader's language, else in English."""
    return str(words.get((get_language() or "en").lower(), words.get("en", "")))


def recipe_document(recipe: OptimizationRecipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "family": recipe.family,
        "title": in_language(recipe.title),
        "about": in_language(recipe.about),
        "parameters": [
            {
                "name": one.name,
                "label": in_language(one.label),
                "help": in_language(one.help),
                "kind": one.kind,
                "default": one.default,
                "least": one.least,
                "most": one.most,
                "choices": list(one.choices),
            }
            for one in recipe.parameters
        ],
        "needs_calibration": recipe.needs_calibration,
        "needs_gpu": recipe.needs_gpu,
        "makes": recipe.makes,
        "engines": list(recipe.engines),
        "digest": recipe.digest,
    }


def document_of(row: OptimizationRun, members: Sequence[FamilyMember]) -> dict[str, Any]:
    check = AccuracyCheck.objects.filter(run=row).first()
    return {
        "schema": SCHEMA,
        "recipe_digest": row.recipe_digest,
        "calibration": row.calibration or None,
        "test": row.test,
        "limits": row.limits,
        "made": row.made or None,
        "accuracy": check and accuracy_document(check),
        "speed": row.speed,
        "benchmark_order": row.benchmark_order,
        "measured_on": measured_on(row),
        "batch": batch_document(row),
        "family": [member_document(one) for one in members],
    }


def member_document(one: FamilyMember) -> dict[str, Any]:
    """Return a version of the family. `cost`: per token, the root's is 1; `is_best`: on the Pareto front."""
    return {
        "version": str(one.version),
        "run": one.run and one.run.pk,
        "recipe": one.run.recipe if one.run else "",
        "metric": one.metric,
        "value": one.value,
        "cost": one.cost,
        "size_bytes": one.version.size_bytes,
        "is_best": one.is_best,
    }


def accuracy_document(check: AccuracyCheck) -> dict[str, Any]:
    return {
        "items": check.items,
        "scores_sha256": check.sha256,
        "verdicts": [verdict_document(one) for one in check.verdicts.all()],
        "worst": check.worst,
    }


def verdict_document(one: AccuracyVerdict) -> dict[str, Any]:
    """Differences in points of accuracy, or percent of perplexity; below 0 is worse."""
    return {
        "metric": one.metric,
        "result": one.result,
        "items": one.items,
        "needed_items": one.needed_items,
        "parent": one.parent_value,
        "child": one.child_value,
        **{
            name: in_percent(one.metric, value)
            for name, value in (("difference", one.difference), ("low", one.low), ("high", one.high))
        },
        "margin": margin_percent(one.metric, one.margin),
        "p_value": one.p_value,
        "flip_rate": one.flip_rate,
    }


def plan_document(plan: RunPlan) -> dict[str, Any]:
    limits: Mapping[str, Any] = plan.limits.as_json()
    return {
        "recipe": plan.recipe.name,
        "parameters": dict(plan.parameters),
        "memory_bytes": limits["memory_bytes"],
        "disk_bytes": limits["disk_bytes"],
        "seconds": round(limits["seconds"]),
        "benchmark_hours": round(2 * plan.benchmark.hours, 2) if plan.benchmark else 0,
        "warnings": list(plan.warnings),
        "benchmark_price": plan.benchmark and plan.benchmark.price and round(2 * plan.benchmark.price, 2),
    }
