from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.audit import heads, verify
from common.audit.verification import ChainBreakKind
from common.errors import Unavailable

STATUS = {
    ChainBreakKind.ALTERED: 3,
    ChainBreakKind.MISSING: 4,
    ChainBreakKind.SIGNATURE: 5,
    ChainBreakKind.HEADS: 6,
}
"""Exit status by the kind of the first fault; 1: nothing could be checked."""
NO_HEADS = 2


class Command(BaseCommand):
    help = (
        "Recompute the audit chain, check its signatures and compare it with the heads that were exported. "
        "Names every row that does not hold. Exit status 3: the first was altered; 4: rows are missing; 5: a "
        "signature is wrong or missing; 6: exported heads say otherwise; 2: the rows hold, but there is no "
        "file of heads; 1: nothing could be checked. A copy of the heads from elsewhere proves more than the "
        "server's own."
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
            for fault in verdict.faults[1:]:
                self.stderr.write(f"{fault.kind}: {fault.reason}")
            said = f"{verdict.broken.reason} {verdict.checked} rows hold. {verdict.proven}"
            raise CommandError(said, returncode=STATUS[verdict.broken.kind])
        self.stdout.write(f"{verdict.checked} rows hold. Head {verdict.head_hash}.\n{verdict.proven}")
        if verdict.checked and not given and not heads.file().exists():
            raise CommandError(f"The file of exported heads {heads.file()} is missing.", returncode=NO_HEADS)


def _heads_of(file: Path) -> list[heads.ChainHead]:
    if not file.exists():
        raise CommandError(f"{file} is missing.")
    try:
        found = heads.read(file)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    if not found:
        raise CommandError(f"{file} holds no exported head: give a file of lines as in {heads.file()}.")
    return found
