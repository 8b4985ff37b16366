from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser


class WrittenFromCode(BaseCommand, ABC):
    """Writes a file that says what the code says. `--check`: exit 1 when it does not.

    A command names the `file`, from the root of the project, and says in `text` the whole of it; `texts` adds
    other files.
    """

    file: str
    requires_system_checks: list[str] = []

    @abstractmethod
    def text(self) -> str: ...

    def texts(self) -> dict[str, str]:
        """Every file that it writes, by its path in the repository."""
        return {self.file: self.text()}

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Write nothing; exit 1 if it would change.")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        for file, text in self.texts().items():
            path = Path(settings.BASE_DIR) / file
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                command = type(self).__module__.rpartition(".")[2]
                raise CommandError(f"{file} is out of date: run manage.py {command}")
