"""`slipway-server doctor`: looks before the first night at what would fail in it."""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from controlplane.garbage import set_up_django


class DoctorStatus(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check."""

    check: str
    status: DoctorStatus
    detail: str
    advice: str = ""
    """What to do; empty when all is well."""


class DoctorProblem(Exception):
    """A check has failed, or with `DoctorStatus.WARN` found something to look at."""

    def __init__(self, detail: str, advice: str, *, status: DoctorStatus = DoctorStatus.FAIL) -> None:
        super().__init__(detail)
        self.detail, self.advice, self.status = detail, advice, status


Check = Callable[[], str]
"""Returns what it saw. Raises DoctorProblem."""


def examine(checks: Iterable[tuple[str, Check]]) -> list[DoctorFinding]:
    """Run each check. One that breaks has failed, and hides no other."""
    findings = []
    for name, check in checks:
        try:
            findings.append(DoctorFinding(name, DoctorStatus.OK, check()))
        except DoctorProblem as problem:
            findings.append(DoctorFinding(name, problem.status, problem.detail, problem.advice))
        except Exception as error:
            detail = " ".join(str(error).split()) or type(error).__name__
            findings.append(
                DoctorFinding(name, DoctorStatus.FAIL, detail, "See the message; then run this again.")
            )
    return findings


def doctor_or_exit(*, as_json: bool) -> None:
    """Exit status 1 when a check has failed; warnings alone give 0."""
    set_up_django()
    from controlplane.server.checks import CHECKS

    findings = examine(CHECKS)
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2) + "\n")
    else:
        sys.stdout.writelines(_line(finding) for finding in findings)
    sys.exit(any(finding.status is DoctorStatus.FAIL for finding in findings))


def _line(finding: DoctorFinding) -> str:
    advice = f"\n                     {finding.advice}" if finding.advice else ""
    return f"{finding.status:<5} {finding.check:<14} {finding.detail}{advice}\n"
