"""Has somebody whom the team trusts signed the version?"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field, StringConstraints

from common.reconcile import Operation, StepOutcome
from models_registry.signature_verification import signers_of, standing_of
from releases.messages import MessageTemplate, text
from releases.models import Release, Service
from releases.plans.step import StepFault, StepPosition, StepSpec
from releases.reconcilers.base import Executor, halt
from releases.states import Halt
from releases.steps.deploy import DeployStep
from trust.signature_policy import keys_of

SIGNED = MessageTemplate("verify_signature.signed", gettext_lazy("Signed by %(keys)s."), keys=text)
NOT_TRUSTED = MessageTemplate(
    "verify_signature.not_trusted",
    gettext_lazy("%(version)s is not signed by a trusted key. %(reason)s"),
    version=text,
    reason=text,
)
OTHER_KEY = MessageTemplate(
    "verify_signature.other_key",
    gettext_lazy("%(version)s is signed by %(keys)s, not by %(key)s."),
    version=text,
    keys=text,
    key=text,
)


class VerifySignatureStep(StepSpec):
    label = gettext_noop("Verify signature")
    icon = "certificate"
    about = gettext_noop("Refuse a version that no key trusted by the team has signed, whatever its policy.")
    order = 12
    checks = True

    kind: Literal["verify_signature"] = "verify_signature"
    key: Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)] = Field(
        default="",
        title=gettext_noop("Key"),
        description=gettext_noop("Name of the trusted key that must have signed; empty: any of the team's."),
    )

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if place.last(DeployStep) is not None:
            yield StepFault(_("the version is already running; put the verification before the deploy step"))

    def lacks(self, service: Service) -> str:
        keys = list(keys_of(service.team_id).values_list("name", flat=True))
        if not keys:
            return _("team %(team)s trusts no signing key yet") % {"team": service.team}
        if self.key and self.key not in keys:
            return _("team %(team)s trusts no key named %(key)s; it trusts %(keys)s") % {
                "team": service.team,
                "key": self.key,
                "keys": ", ".join(sorted(keys)),
            }
        return ""

    def summary(self) -> str:
        return _("signature by %(key)s") % {"key": self.key} if self.key else _("signature by a trusted key")

    def planned(self) -> str:
        return self.key or _("any trusted key")

    def executor(self) -> "VerifySignatureExecutor":
        return VerifySignatureExecutor(self)


class VerifySignatureExecutor(Executor[VerifySignatureStep]):
    """Verify the signatures anew, over the files as they are listed, by the keys that are trusted now."""

    name = "verify_signature"

    def observe(self, row: Release, operation: Operation) -> tuple[str, str, list[str]]:
        found = standing_of(row.version)
        return found.name, found.reason, signers_of(row.version)

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        standing, reason, keys = seen
        if standing != "trusted":
            return halt(row, NOT_TRUSTED(version=row.version, reason=reason), kind=Halt.FAIL)
        if self.spec.key and self.spec.key not in keys:
            told = OTHER_KEY(version=row.version, keys=", ".join(keys), key=self.spec.key)
            return halt(row, told, kind=Halt.FAIL)
        return self.go_on(row, note=SIGNED(keys=", ".join(keys)), detail={"keys": keys})
