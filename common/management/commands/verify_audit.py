from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.audit import heads, verify
from common.errors import Unavailable


class Command(BaseCommand):
    help = (
        "Recompute the audit chain, check its signatures and compare it with the heads that were exported; "
        "exit status 1 names the first row that does not hold. A copy of the heads from elsewhere proves "
        "more than the server's own."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--heads",
            type=Path,
            metavar="FILE",
            help="a file of exported heads, a JSON object a line; else the server's audit/heads.jsonl",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        given = options["heads"]
        try:
            verdict = verify(_heads_of(given) if given else None)
        except Unavailable as error:
            raise CommandError(str(error)) from None
        if verdict.broken:
            raise CommandError(f"{verdict.broken.reason} {verdict.checked} rows hold. {verdict.proven}")
        self.stdout.write(f"{verdict.checked} rows hold. Head {verdict.head_hash}.\n{verdict.proven}")


def _heads_of(file: Path) -> list[heads.Head]:
    try:
        found = heads.read(file)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    if not found:
        raise CommandError(f"{file} holds no exported head: give a file of lines as in {heads.file()}.")
    return found
