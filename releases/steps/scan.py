"""Is the version what it claims to be?"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop, ngettext, ngettext_lazy
from pydantic import Field

from common.pages import formats
from common.reconcile import StepOutcome
from common.sentences import day
from models_registry.errors import CodeNotAllowed, SignatureNotTrusted
from models_registry.exemptions import check_code, code_of, exemption_of
from models_registry.models import Version
from models_registry.signature_verification import check_signature
from models_registry.states import VersionState
from releases.messages import MessageTemplate, ReleaseMessage, count, text
from releases.models import Release
from releases.plans.step import DAY, StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.base import Executor, halt
from releases.states import Halt
from releases.steps.deploy import DeployStep


def _state(value: str) -> str:
    return str(VersionState(value).label).lower()


def _day(value: str) -> str:
    return day(datetime.fromisoformat(value))


NOT_READY = MessageTemplate(
    "scan.not_ready", gettext_lazy("%(version)s is %(state)s, not ready."), version=text, state=_state
)
NO_CODE = MessageTemplate(
    "scan.no_code",
    ngettext_lazy(
        "%(files)s file, of a format that runs no code.",
        "%(files)s files, all of formats that run no code.",
        "files",
    ),
    files=count,
)
EXEMPTED = MessageTemplate(
    "scan.exempted",
    ngettext_lazy(
        "%(files)s file, %(code)s of them with code, exempted by %(by)s until %(until)s.",
        "%(files)s files, %(code)s of them with code, exempted by %(by)s until %(until)s.",
        "files",
    ),
    files=count,
    code=count,
    by=text,
    until=_day,
)


class ScanStep(StepSpec):
    label = gettext_noop("Scan")
    icon = "shield-search"
    about = gettext_noop("Refuse a version whose files are not what they claim to be, or may run code.")
    order = 10
    checks = True
    starts_candidate = True

    kind: Literal["scan"] = "scan"
    timeout_seconds: Annotated[int, whole(least=10, most=DAY)] = Field(
        default=600, title=gettext_noop("Timeout (s)")
    )

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if place.last(DeployStep) is not None:
            yield StepFault(_("the version is already running; put the scan before the deploy step"))

    def summary(self) -> str:
        return _("scan the files")

    def planned(self) -> str:
        return _("files and formats")

    def found(self, progress: StepProgress) -> str:
        if not progress.is_over:
            return ""
        files = progress.release.version.file_count
        return ngettext("%(number)s file", "%(number)s files", files) % {"number": formats.count(files)}

    def executor(self) -> "ScanExecutor":
        return ScanExecutor(self)


class ScanExecutor(Executor[ScanStep]):
    """The registry has looked at every file while importing; a release trusts only what is still so."""

    name = "scan"

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        version = row.version
        if version.state != VersionState.READY:
            return halt(row, NOT_READY(version=version, state=version.state), kind=Halt.FAIL)
        try:
            check_code(version, at=now)
            signature = check_signature(version)
        except (CodeNotAllowed, SignatureNotTrusted) as error:
            return halt(row, ReleaseMessage(words=str(error)), kind=Halt.FAIL)
        note = _files(version, now) + ReleaseMessage(words=signature)
        return self.go_on(row, note=note, detail={"digest": version.digest})


def _files(version: Version, now: datetime) -> ReleaseMessage:
    code = code_of(version)
    exemption = exemption_of(version, at=now) if code else None
    if exemption is None:
        return NO_CODE(files=version.file_count)
    return EXEMPTED(
        files=version.file_count,
        code=len(code),
        by=exemption.given_by,
        until=exemption.until.isoformat(),
    )
