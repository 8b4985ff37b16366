"""Tell webhooks how far the release has come."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from pydantic import Field, StringConstraints

from common import events
from common.reconcile import StepOutcome
from releases.events import ReleaseNotified
from releases.models import Release
from releases.plans.step import StepSpec
from releases.reconcilers.base import Executor


class NotifyStep(StepSpec):
    label = gettext_noop("Notify")
    icon = "bell"
    about = gettext_noop("Send the webhook event release.notified with a message, and continue.")
    order = 45
    start = {"message": "The canary has begun."}

    kind: Literal["notify"] = "notify"
    message: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=150)] = Field(
        title=gettext_noop("Message")
    )

    def summary(self) -> str:
        return _("notify: %(message)s") % {"message": self.message}

    def planned(self) -> str:
        return self.message

    def found(self, progress: Any) -> str:
        return self.message

    def consequences(self, release: Release) -> tuple[str, ...]:
        return (_("Webhooks are told: %(message)s") % {"message": self.message},)

    def executor(self) -> "NotifyExecutor":
        return NotifyExecutor(self)


class NotifyExecutor(Executor[NotifyStep]):
    name = "notify"

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        told = ReleaseNotified(row.pk, row.step_index, self.spec.message)
        return self.go_on(row, also=lambda: events.publish(told))
