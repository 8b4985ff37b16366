from common.alert_rules import AlertRule, as_prometheus_rule, as_yaml, rule_of
from common.declared import manifests
from common.management.written import WrittenFromCode

OBJECT = """\
# The alerts of docs/alerts.yaml for the Prometheus Operator. Written by `manage.py alert_rules`.
"""
HEAD = """\
# Prometheus alerting rules for Slipway: name this file under `rule_files`. docs/API.md describes the metrics.
# Written by `manage.py alert_rules` from the checks and rules in the manifests of the apps.
"""


class Command(WrittenFromCode):
    help = "Write docs/alerts.yaml, for Prometheus, and the same for its operator."
    file = "docs/alerts.yaml"

    def text(self) -> str:
        return HEAD + as_yaml(_rules())

    def texts(self) -> dict[str, str]:
        return {**super().texts(), "deploy/monitoring/rules.yaml": OBJECT + as_prometheus_rule(_rules())}


def _rules() -> list[AlertRule]:
    found: list[AlertRule] = []
    for manifest in manifests():
        found += manifest.alert_rules
        found += filter(None, map(rule_of, manifest.alert_checks))
    return found
