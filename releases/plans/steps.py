"""The steps that a plan is made of. Durations are whole seconds, shares whole percents."""

from typing import Annotated, Literal, Self, get_args

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Field, model_validator

HOUR = 3600
DAY = 24 * HOUR
WEEK = 7 * DAY


def _whole(*, least: int, most: int) -> object:
    # Strict: "60", 60.5 and true are mistakes in a plan, not sixty seconds.
    return Field(strict=True, ge=least, le=most)


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scan(_Step):
    """Refuse a version whose files are not what they claim to be, or may run code."""

    kind: Literal["scan"] = "scan"
    timeout_seconds: Annotated[int, _whole(least=10, most=DAY)] = 600


class Deploy(_Step):
    """Start the candidate's workers, or change how many there are, and wait until all of them are ready."""

    kind: Literal["deploy"] = "deploy"
    replicas: Annotated[int, _whole(least=1, most=1000)] | None = Field(
        default=None, description=_("How many workers; or say share_percent.")
    )
    share_percent: Annotated[int, _whole(least=1, most=100)] | None = Field(
        default=None,
        description=_("As many workers as this percentage of stable's, rounded up; or say replicas."),
    )
    ready_within_seconds: Annotated[int, _whole(least=5, most=DAY)] = Field(
        default=900, description=_("Workers that are not ready by then fail the release.")
    )

    @model_validator(mode="after")
    def _says_how_many_once(self) -> Self:
        if (self.replicas is None) == (self.share_percent is None):
            raise ValueError(gettext("say either replicas or share_percent"))
        return self


class SmokeTest(_Step):
    """Send real requests straight to the candidate; one bad answer fails the release."""

    kind: Literal["smoke_test"] = "smoke_test"
    requests: Annotated[int, _whole(least=1, most=1000)] = 5
    timeout_seconds: Annotated[int, _whole(least=1, most=HOUR)] = Field(
        default=60, description=_("For all requests together.")
    )
    max_latency_ms: Annotated[int, _whole(least=1, most=HOUR * 1000)] | None = Field(
        default=None, description=_("A slower answer fails the test; null to accept any.")
    )


class Weight(_Step):
    """Give the candidate this percentage of the service's requests, and see that it really gets them."""

    kind: Literal["weight"] = "weight"
    percent: Annotated[int, _whole(least=1, most=100)]


class Hold(_Step):
    """Let time pass. While the candidate has traffic it is judged, and rolled back as soon as that is due."""

    kind: Literal["hold"] = "hold"
    seconds: Annotated[int, _whole(least=1, most=WEEK)]


class Judge(_Step):
    """Go on as soon as the candidate passes the analysis."""

    kind: Literal["judge"] = "judge"
    at_most_seconds: Annotated[int, _whole(least=1, most=WEEK)] = Field(
        default=HOUR, description=_("How long to wait for enough evidence.")
    )
    on_insufficient: Literal["ask", "wait", "promote", "roll_back"] = Field(
        default="ask",
        description=(
            _(
                "Without enough evidence by then: ask = go on to the next approval, which then must "
                "be clicked; wait = keep waiting for evidence; promote = go on without it; roll_back "
                "= roll back."
            )
        ),
    )


class Approval(_Step):
    """Wait for a person."""

    kind: Literal["approval"] = "approval"
    role: Literal["approver", "admin"] = Field(
        default="approver", description=_("The role in the service's team that may approve.")
    )
    separate_requester: Annotated[bool, Field(strict=True)] = Field(
        default=True, description=_("Whoever started the release may not approve it.")
    )
    timeout_seconds: Annotated[int, _whole(least=10, most=30 * DAY)] = DAY
    on_timeout: Literal["roll_back", "reject", "wait"] = Field(
        default="roll_back", description=_("wait = the approval never times out.")
    )
    keep_judging: Annotated[bool, Field(strict=True)] = Field(
        default=True, description=_("Roll back while waiting, too, when the judge says so.")
    )
    when: Literal["always", "unless_certified"] = Field(
        default="always",
        description=_("unless_certified = skipped when the candidate has passed the analysis."),
    )


class Promote(_Step):
    """Make the candidate stable: all requests to it. The old workers stop after the plan's bake time."""

    kind: Literal["promote"] = "promote"


Step = Annotated[
    Scan | Deploy | SmokeTest | Weight | Hold | Judge | Approval | Promote, Field(discriminator="kind")
]
StepKind = Literal["scan", "deploy", "smoke_test", "weight", "hold", "judge", "approval", "promote"]
STEP_KINDS: tuple[StepKind, ...] = get_args(StepKind)
