from common.alert_rules import as_yaml
from common.declared import manifests
from common.management.written import WrittenFromCode

HEAD = """\
# Prometheus alerting rules for Slipway: name this file under `rule_files`. docs/API.md describes the metrics.
# Written by `manage.py alert_rules` from the manifests of the apps.
"""


class Command(WrittenFromCode):
    help = "Write docs/alerts.yaml, for Prometheus."
    file = "alerts.yaml"

    def text(self) -> str:
        return HEAD + as_yaml(rule for manifest in manifests() for rule in manifest.alert_rules)
