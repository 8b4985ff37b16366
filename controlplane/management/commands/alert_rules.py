from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.alert_rules import as_yaml
from common.declared import manifests
from controlplane.environment import PROJECT

PATH = PROJECT / "docs" / "alerts.yaml"
HEAD = """\
# Prometheus alerting rules for Slipway: name this file under `rule_files`. docs/API.md describes the metrics.
# Written by `manage.py alert_rules` from the manifests of the apps.
"""


def reference() -> str:
    """The whole of docs/alerts.yaml."""
    return HEAD + as_yaml(rule for manifest in manifests() for rule in manifest.alert_rules)


class Command(BaseCommand):
    help = "Write docs/alerts.yaml; with --check, exit 1 when it is not what the manifests say."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        if not check:
            PATH.write_text(reference())
        elif not PATH.exists() or PATH.read_text() != reference():
            raise CommandError("docs/alerts.yaml is out of date: run manage.py alert_rules")
