"""`python -m tests.written_from_code`: every file that is written from the code says what the code says.

All are asked by one process, which loads the project once. Exit status 1 after a line for each that does not.
"""

import difflib
import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command

from controlplane.garbage import set_up_django
from tests import migration_rules


def schema() -> None:
    fresh = io.StringIO()
    call_command("spectacular", fail_on_warn=True, stdout=fresh)
    kept = Path(settings.BASE_DIR) / "docs/openapi.yaml"
    old, new = kept.read_text().splitlines(), fresh.getvalue().splitlines()
    if told := "\n".join(difflib.unified_diff(old, new, "docs/openapi.yaml", "the code", lineterm="")):
        raise CommandError(f"{told}\nTo take it over: manage.py spectacular --file docs/openapi.yaml")


def migrations() -> None:
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            call_command("makemigrations", check_changes=True, dry_run=True)
    except SystemExit:
        raise CommandError(f"{said.getvalue()}Run manage.py makemigrations") from None


def rules_of_migrations() -> None:
    if migration_rules.main():
        raise CommandError("Migrations must let the version before go on working.")


CHECKS: dict[str, Callable[[], object]] = {
    ".importlinter": lambda: call_command("import_contracts", check=True),
    "docs/openapi.yaml": schema,
    "migrations": migrations,
    "rules of migrations": rules_of_migrations,
    "docs/SETTINGS.md": lambda: call_command("settings_reference", check=True),
    "docs/alerts.yaml": lambda: call_command("alert_rules", check=True),
    "docs/PLANS.md": lambda: call_command("plans_reference", check=True),
    "dashboard": lambda: call_command("dashboard", check=True),
}


def main() -> int:
    set_up_django()
    status = 0
    for name, check in CHECKS.items():
        try:
            check()
        except CommandError as error:
            sys.stderr.write(f"{name}: {error}\n")
            status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
