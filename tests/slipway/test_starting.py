"""A command imports the module of its noun, and none of the others."""

import subprocess
import sys

HEAVY = (
    "gpu_health",
    "httpx2",
    "pydantic",
    "rich.console",
    "slipway.cli.nouns.models",
    "slipway.cli.nouns.cluster",
)


def imported_by(*arguments: str) -> set[str]:
    program = f"""
import sys
from slipway.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "Usage: " in done.stdout, done
    return set(done.stderr.split())


def test_help_of_a_noun_imports_no_other_noun_and_nothing_that_asks_or_prints() -> None:
    modules = imported_by("token", "list", "--help")

    assert "slipway.cli.nouns.token" in modules
    assert not modules & set(HEAVY)


def test_help_of_all_nouns_needs_neither_the_network_nor_tables() -> None:
    modules = imported_by("--help")

    assert {"slipway.cli.nouns.models", "slipway.cli.nouns.cluster"} <= modules
    assert not modules & {"httpx2", "pydantic", "rich.progress"}
