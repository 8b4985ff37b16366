from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.environment import PROJECT, Environment, variable

PATH = PROJECT / "docs" / "SETTINGS.md"
HEAD = """\
# Settings

Written by `manage.py settings_reference` from `controlplane/environment.py`. Set them in the environment,
or as `NAME=value` lines in a file `.env` beside `manage.py`; the environment wins. A missing or malformed
setting stops the process with one line that names it (exit status 2).

| variable | default | meaning |
|---|---|---|
"""


def reference() -> str:
    """The whole of docs/SETTINGS.md."""
    rows = []
    for name, field in Environment.model_fields.items():
        default = field.default
        if isinstance(default, tuple):
            default = ",".join(str(part) for part in default)
        if isinstance(default, bool):
            default = str(default).lower()
        shown = f"`{default}`" if default != "" else ""
        rows.append(f"| `{variable(name)}` | {shown} | {field.description} |\n")
    return HEAD + "".join(rows)


class Command(BaseCommand):
    help = "Write docs/SETTINGS.md; with --check, exit 1 when it is not what the code says."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        if not check:
            PATH.parent.mkdir(exist_ok=True)
            PATH.write_text(reference())
        elif not PATH.exists() or PATH.read_text() != reference():
            raise CommandError("docs/SETTINGS.md is out of date: run manage.py settings_reference")
