"""Known vulnerabilities of the pinned packages, when a service tells them: `python tests/advisories.py`.

Exit status 1 only for a finding that a newer version fixes; an index without advisories is no failure.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
PROBE = "Django==5.2.0\n"
"""A version with published advisories: an index that knows none for it knows none at all."""


def audit(requirements: Path, *, limit_seconds: float) -> list[dict[str, Any]]:
    """Return pip-audit's `dependencies`; empty when the service does not answer within the limit."""
    command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--timeout", "5"]
    command += ["--progress-spinner", "off", "--format", "json", "--requirement", str(requirements)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=limit_seconds, check=False)
        found: list[dict[str, Any]] = json.loads(answer.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return []
    return found


def main() -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as probe:
        probe.write(PROBE)
        probe.flush()
        if not any(package.get("vulns") for package in audit(Path(probe.name), limit_seconds=20)):
            sys.stdout.write("   The package index gives no advisories here: not audited.\n")
            return 0
    status = 0
    for package in audit(CONSTRAINTS, limit_seconds=180):
        for finding in package.get("vulns", ()):
            fixed = ", ".join(finding["fix_versions"])
            sys.stdout.write(f"   {package['name']} {package['version']}: {finding['id']}, ")
            sys.stdout.write(f"fixed in {fixed}\n" if fixed else "no fix yet\n")
            status |= bool(fixed)
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
