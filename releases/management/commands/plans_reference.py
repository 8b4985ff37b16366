from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from releases.plans.reference import reference


class Command(BaseCommand):
    help = "Write docs/PLANS.md; with --check, exit 1 when it is not what the code says."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        path = settings.BASE_DIR / "docs" / "PLANS.md"
        if not check:
            path.write_text(reference())
        elif not path.exists() or path.read_text() != reference():
            raise CommandError("docs/PLANS.md is out of date: run manage.py plans_reference")
