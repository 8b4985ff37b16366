"""Rules for Prometheus, which `manage.py alert_rules` writes out: those of the apps' checks, and further ones
in their manifests, which need rates or must fire while the control plane stands still."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import yaml
from django.utils import translation

from common.alert_checks import AlertCheck

RUNBOOK = "docs/PRODUCTION.md"
"""Has a section for every rule, headed by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """Its words are English: Prometheus has no language."""

    name: str
    """`SlipwayDiskLow`"""
    expr: str
    """PromQL over our own metrics. What describes all machines every web tells: `max by` makes it one."""
    summary: str
    severity: Literal["warning", "critical"]
    lasts: str = ""
    """For how long it must hold: `1m`; empty: at once."""
    note: str = ""
    """What to do, or what it means."""


def rule_of(check: AlertCheck) -> AlertRule | None:
    """Return the check as a rule for Prometheus; None where no metric shows what it finds."""
    if (condition := check.condition) is None:
        return None
    labels = ", ".join(f"{{{{ $labels.{name} }}}}" for name in condition.by)
    with translation.override("en"):
        title, note = str(check.title), str(check.note)
    return AlertRule(
        name=check.name,
        expr=condition.expr,
        summary=f"{title}: {labels}" if labels else title,
        severity=check.severity,
        lasts=_duration(check.lasts),
        note=note,
    )


def _duration(lasts: timedelta) -> str:
    minutes, seconds = divmod(round(lasts.total_seconds()), 60)
    return f"{minutes * 60 + seconds}s" if seconds else f"{minutes}m" if minutes else ""


def as_yaml(rules: Iterable[AlertRule]) -> str:
    """Return one group of rules, as `rule_files` of Prometheus takes it."""
    return _dumped(_groups(rules))


def as_prometheus_rule(rules: Iterable[AlertRule]) -> str:
    """The same as an object of the Prometheus Operator."""
    head = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule"}
    return _dumped({**head, "metadata": {"name": "slipway"}, "spec": _groups(rules)})


def _groups(rules: Iterable[AlertRule]) -> dict[str, Any]:
    return {"groups": [{"name": "slipway", "rules": [_written(rule) for rule in rules]}]}


def _dumped(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)


def _written(rule: AlertRule) -> dict[str, Any]:
    annotations = {
        "summary": rule.summary,
        "description": rule.note,
        # Its section, as GitHub names the place of a heading.
        "runbook": f"{RUNBOOK}#{rule.name.lower()}",
    }
    found = {
        "alert": rule.name,
        "expr": rule.expr,
        "for": rule.lasts,
        "labels": {"severity": rule.severity},
        "annotations": {name: text for name, text in annotations.items() if text},
    }
    return {name: value for name, value in found.items() if value}
