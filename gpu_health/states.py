"""Words for the database and for pages; the judge and the rules have the same ones without Django."""

from django.db.models import IntegerChoices, TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class FindingState(TextChoices):
    OPEN = "open", _("Open")
    CLEARED = "cleared", _("Cleared")
    """Its source has taken it back."""
    CLOSED = "closed", _("Closed")
    """A person has said that it is dealt with."""


class FindingOutcome(TextChoices):
    ACT = "act", _("Would act")
    PROPOSE = "propose", _("Proposes")
    RECORD = "record", _("Records")
    ALERT = "alert", _("Alerts")


class FindingSeverity(TextChoices):
    FATAL = "fatal", _("Fatal")
    CRITICAL = "critical", _("Critical")
    WARNING = "warning", _("Warning")
    INFO = "info", _("Info")


class RuleMode(TextChoices):
    OFF = "off", _("Off")
    RECORD = "record", _("Record only")
    PROPOSE = "propose", _("Propose, a person approves")
    ACT = "act", _("Act")


class DrainScope(TextChoices):
    NONE = "none", _("No pods")
    GPU = "gpu", _("The pods of the GPU")
    NODE = "node", _("The pods of the machine")


class RuleVerification(TextChoices):
    NONE = "none", _("None")
    DCGM_DIAGNOSTIC = "dcgm_diagnostic", _("dcgmi diag -r 2")
    CHECK_JOB = "check_job", _("Check job")
    NCCL_BANDWIDTH = "nccl_bandwidth", _("NCCL bandwidth")
    PERSON = "person", _("A person")


class IncidentState(TextChoices):
    PROPOSED = "proposed", _("Proposed")
    """Nothing was done yet."""
    QUARANTINING = "quarantining", _("Quarantining")
    QUARANTINED = "quarantined", _("Quarantined")
    """Out of service; the next rung of the ladder waits for its turn."""
    DRAINING = "draining", _("Draining")
    COLLECTING = "collecting", _("Collecting evidence")
    ACTING = "acting", _("Acting")
    VERIFYING = "verifying", _("Verifying")
    RETURNING = "returning", _("Returning")
    WATCHING = "watching", _("Watching")
    """Back in service."""
    NEEDS_PERSON = "needs_person", _("Needs a person")
    CLOSED = "closed", _("Closed")
    """Healed and in service; or the drill is over that it belonged to."""
    CANCELLED = "cancelled", _("Cancelled")


class HealingMode(TextChoices):
    DRY_RUN = "dry_run", _("Dry run")
    """Incidents say what would be done; nothing is."""
    ACT = "act", _("Act")


class CheckLevel(IntegerChoices):
    """The level of `python -m serving.checks gpu --level`."""

    SHORT = 1, _("Short check (15 seconds)")
    MEDIUM = 2, _("Medium check (2 minutes)")
    LONG = 3, _("Long check (15 minutes)")


class CheckState(TextChoices):
    WAITING = "waiting", _("Waiting for an idle machine")
    RUNNING = "running", _("Running")
    PASSED = "passed", _("Passed")
    FAILED = "failed", _("Failed")
    INCONCLUSIVE = "inconclusive", _("Inconclusive")
    """The host was too busy to tell a slow GPU: nothing is opened or closed by it."""
    IMPOSSIBLE = "impossible", _("Not possible")
    """Nothing was found out about the machine."""
    CANCELLED = "cancelled", _("Cancelled")


C = CheckState
ENDED_CHECKS = (C.PASSED, C.FAILED, C.INCONCLUSIVE, C.IMPOSSIBLE, C.CANCELLED)
CHECK_MOVES = StateMachine(
    {C.WAITING: {C.RUNNING, C.IMPOSSIBLE, C.CANCELLED}, C.RUNNING: set(ENDED_CHECKS)}
    | {ended: set() for ended in ENDED_CHECKS}
)
del C


class DrillWay(TextChoices):
    AGENT = "agent", _("The agent of the machine")
    CONDITION = "condition", _("A condition of the node")
    PROVIDER = "provider", _("An event of the provider")
    CHECK = "check", _("A check")


class DrillState(TextChoices):
    PREPARING = "preparing", _("Preparing")
    """Healthy GPUs are played, until the machine is seen to tell of them."""
    PLAYING = "playing", _("Playing")
    FOLLOWING = "following", _("Following")
    """The fault is there: is it found, and what follows?"""
    ENDING = "ending", _("Cleaning up")
    PASSED = "passed", _("Passed")
    FAILED = "failed", _("Failed")
    """It was not found, or judged otherwise than the rules say, or did not come to an end."""
    CANCELLED = "cancelled", _("Cancelled")


D = DrillState
ENDED_DRILLS = (D.PASSED, D.FAILED, D.CANCELLED)
DRILL_MOVES = StateMachine(
    {
        D.PREPARING: {D.PLAYING, D.ENDING},
        D.PLAYING: {D.FOLLOWING, D.ENDING},
        D.FOLLOWING: {D.ENDING},
        D.ENDING: set(ENDED_DRILLS),
    }
    | {ended: set() for ended in ENDED_DRILLS}
)
del D


S = IncidentState
ENDED_INCIDENTS = (S.CLOSED, S.CANCELLED)
INCIDENT_MOVES = StateMachine(
    {
        S.PROPOSED: {S.QUARANTINING, S.ACTING, S.NEEDS_PERSON, *ENDED_INCIDENTS},
        S.QUARANTINING: {S.QUARANTINED, S.RETURNING, *ENDED_INCIDENTS},
        S.QUARANTINED: {
            *(S.DRAINING, S.COLLECTING, S.ACTING, S.VERIFYING, S.RETURNING),
            *(S.NEEDS_PERSON, *ENDED_INCIDENTS),
        },
        S.DRAINING: {S.COLLECTING, S.QUARANTINED, S.VERIFYING, S.RETURNING, S.NEEDS_PERSON, *ENDED_INCIDENTS},
        S.COLLECTING: {S.ACTING, S.DRAINING, S.QUARANTINED, S.VERIFYING, S.RETURNING, *ENDED_INCIDENTS},
        S.ACTING: {S.VERIFYING, S.QUARANTINED, S.PROPOSED, S.RETURNING, S.NEEDS_PERSON, *ENDED_INCIDENTS},
        S.VERIFYING: {S.RETURNING, S.WATCHING, S.QUARANTINED, S.PROPOSED, S.NEEDS_PERSON, *ENDED_INCIDENTS},
        S.RETURNING: {S.WATCHING, S.QUARANTINING, *ENDED_INCIDENTS},
        S.WATCHING: {S.PROPOSED, *ENDED_INCIDENTS},
        S.NEEDS_PERSON: {S.VERIFYING, S.QUARANTINED, S.RETURNING, *ENDED_INCIDENTS},
        S.CLOSED: set(),
        S.CANCELLED: set(),
    }
)
del S
