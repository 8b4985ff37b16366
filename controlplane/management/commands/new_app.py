import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane import installed
from controlplane.environment import PROJECT

SKELETON = PROJECT / "controlplane/new_app"
PLACES = {"app": "{rows}", "tests": "tests/{rows}"}
FILES = {"noun.py": "slipway/cli/nouns/{row}.py", "matrix.py": "tests/accounts/rights_matrix/{rows}.py"}
ONLY_RECONCILED = "%"
"""Begins a line of the skeleton that an app has only if its rows are reconciled."""


WRITE = """
import sys
import django
django.setup()
from pathlib import Path
from django.core.management import call_command
from tests.texts import catalogues
name, chinese = sys.argv[1:]
call_command("makemigrations", name, verbosity=0)
call_command("import_contracts")
call_command("spectacular", file="docs/openapi.yaml")
for text in catalogues.update(catalogues.translations_of(Path(chinese))):
    print("has no Chinese yet:", text)
"""


class Command(BaseCommand):
    help = (
        "Make an app with one kind of row of teams: list, page, REST, CLI, search, inbox, audit, rights, "
        "Chinese, live and a test. It stands above all others: move its line in controlplane/installed.py."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="The app, a plural in lower case: load_tests.")
        parser.add_argument("--row", help="Its kind of row, a singular; default: the name without its s.")
        parser.add_argument("--chinese", required=True, help="What Chinese pages call the row.")
        parser.add_argument("--icon", default="box", help="An icon of Tabler.")
        parser.add_argument("--reconciled", action="store_true", help="Rows are advanced by the kernel.")
        parser.add_argument("--project", type=Path, default=PROJECT, help="A copy of the project.")

    def handle(self, *args: Any, name: str, row: str | None, project: Path, **options: Any) -> None:
        row = row or name.removesuffix("s")
        for word in (name, row):
            if not re.fullmatch(r"[a-z][a-z_]{1,29}", word):
                raise CommandError(f"{word!r}: 2 to 30 lower-case letters and underscores.")
        if name == row:
            raise CommandError("The app is a plural, its row a singular: name it with --row.")
        if name in sys.stdlib_module_names or (project / name).exists():
            raise CommandError(f"{name} is taken: choose another name.")
        words = _words(name, row, icon=options["icon"], is_reconciled=options["reconciled"])
        for file in sorted(SKELETON.rglob("*.txt")):
            _write(project, file, words, is_reconciled=options["reconciled"])
        _declare(project, name)
        _document(project, words)
        _generate(project, name, _translations(words, options["chinese"]))
        self.stdout.write(f"{name}: made. Try python -m pytest tests/{name}.")


def _words(rows: str, row: str, *, icon: str, is_reconciled: bool) -> dict[str, str]:
    kind = row.title().replace("_", "")
    return {
        "rows": rows,
        "row": row,
        "ROWS": rows.upper(),
        "Rows": rows.title().replace("_", ""),
        "Row": kind,
        "model": row.replace("_", ""),
        "words": rows.replace("_", " "),
        "word": row.replace("_", " "),
        "Words": rows.replace("_", " ").capitalize(),
        "Word": row.replace("_", " ").capitalize(),
        "slug": rows.replace("_", "-"),
        "noun": row.replace("_", "-"),
        "path": f"/{rows.replace('_', '-')}/",
        "icon": icon,
        "rank": str(200 + len(installed.APPS)),
        "Base": "TeamRow, Reconciled" if is_reconciled else "TeamRow",
        "Tells": f", tells=((KIND, {kind}State.PROPOSED),)" if is_reconciled else "",
        "tone": "busy" if is_reconciled else "good",
        "last": "ready" if is_reconciled else "accepted",
    }


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda found: words[found[1]], text)


def _write(project: Path, file: Path, words: dict[str, str], *, is_reconciled: bool) -> None:
    lines = file.read_text().splitlines(keepends=True)
    text = "".join(
        line.removeprefix(ONLY_RECONCILED)
        for line in lines
        if is_reconciled or not line.startswith(ONLY_RECONCILED)
    )
    if lines and not text:
        return
    inside = file.relative_to(SKELETON).as_posix().removesuffix(".txt")
    top, _, rest = inside.partition("/")
    place = f"{PLACES[top]}/{rest}" if rest else FILES[top]
    target = project / _filled(place.format_map(words), words)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_filled(text, words))


def _declare(project: Path, name: str) -> None:
    file = project / "controlplane/installed.py"
    line = f'    ("{name}",),'
    text, count = re.subn(r"(LAYERS: .*?)\n\)", rf"\1\n{line}\n)", file.read_text(), count=1, flags=re.S)
    if not count:
        raise CommandError(f"{file} has no LAYERS.")
    file.write_text(text)


def _document(project: Path, words: dict[str, str]) -> None:
    file = project / "docs/CLI.md"
    text = file.read_text()
    last = [line for line in text.splitlines() if re.match(r"\| `[a-z -]+` \| `", line)][-1]
    file.write_text(text.replace(last, f"{last}\n| `{words['noun']}` | `list`, `accept` |", 1))


def _translations(words: dict[str, str], chinese: str) -> dict[str, str]:
    return {
        words["Words"]: chinese,
        words["Word"]: chinese,
        words["word"]: chinese,
        f"New {words['word']}": f"新建{chinese}",
        f"create and change {words['words']}": f"创建和更改{chinese}",
        "Accepted": "已接受",
    }


def _generate(project: Path, name: str, translations: dict[str, str]) -> None:
    """Write what is written from code: by a new process, which knows the app."""
    with TemporaryDirectory() as home:
        chinese = Path(home) / "chinese.json"
        chinese.write_text(json.dumps(translations))
        migrations = project / name / "migrations"
        migrations.mkdir()
        (migrations / "__init__.py").touch()
        environment = {
            **os.environ,
            "SLIPWAY_HOME": home,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.test",
        }
        made = [name, f"tests/{name}", "slipway/cli/nouns", "tests/accounts/rights_matrix", "controlplane"]
        for command in (
            ("-c", WRITE, name, str(chinese)),
            ("-m", "ruff", "format", "--quiet", *made),
            ("-m", "ruff", "check", "--fix", "--quiet", *made),
        ):
            subprocess.run([sys.executable, *command], cwd=project, env=environment, check=True)
