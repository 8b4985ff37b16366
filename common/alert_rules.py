"""Rules for Prometheus, which apps give in their manifests; `manage.py alert_rules` writes them out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import yaml

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
