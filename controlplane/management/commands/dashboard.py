import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.dashboard import dashboard
from controlplane.environment import PROJECT

PATH = PROJECT / "docs" / "dashboard.json"


def reference() -> str:
    """The whole of docs/dashboard.json."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


class Command(BaseCommand):
    help = "Write docs/dashboard.json, for Grafana; with --check, exit 1 when it is not up to date."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        if not check:
            PATH.write_text(reference())
        elif not PATH.exists() or PATH.read_text() != reference():
            raise CommandError("docs/dashboard.json is out of date: run manage.py dashboard")
