from typing import Any

from django.core.management.base import BaseCommand, CommandError

from common.audit import verify


class Command(BaseCommand):
    help = "Recompute the audit chain; exit status 1 names the first row that does not hold."

    def handle(self, *args: Any, **options: Any) -> None:
        verdict = verify()
        if verdict.broken:
            raise CommandError(f"{verdict.broken.reason} {verdict.checked} rows before it are intact.")
        self.stdout.write(f"{verdict.checked} rows, unbroken. Head {verdict.head_hash}.")
