from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class OptimizationState(TextChoices):
    PREPARING = "preparing", _("Preparing")
    """Inputs are read and checked, and the recipe's environment is made."""
    RUNNING = "running", _("Running")
    STORING = "storing", _("Storing")
    CHECKING = "checking", _("Checking accuracy")
    BENCHMARKING = "benchmarking", _("Benchmarking")
    CANCELLING = "cancelling", _("Cancelling")
    PASSED = "passed", _("Passed")
    REJECTED = "rejected", _("Rejected")
    """The accuracy check or the benchmark says no."""
    NEEDS_ITEMS = "needs_items", _("Needs more items")
    """The test set is too small to tell."""
    FAILED = "failed", _("Failed")
    """No version, or no evidence, could be made."""
    CANCELLED = "cancelled", _("Cancelled")


class RunPlace(TextChoices):
    LOCAL = "local", _("Beside the control plane")
    CLUSTER = "cluster", _("Job of the cluster")


class AccuracyResult(TextChoices):
    PASSED = "passed", _("Passed")
    FAILED = "failed", _("Failed")
    NEEDS_ITEMS = "needs_items", _("Needs more items")


_S = OptimizationState

ENDED = frozenset({_S.PASSED, _S.REJECTED, _S.NEEDS_ITEMS, _S.FAILED, _S.CANCELLED})
UNDER_WAY = frozenset({_S.PREPARING, _S.RUNNING, _S.STORING, _S.CHECKING, _S.BENCHMARKING})
MOVES: StateMachine[OptimizationState] = StateMachine(
    {
        _S.PREPARING: {_S.RUNNING, _S.FAILED, _S.CANCELLING, _S.CANCELLED},
        _S.RUNNING: {_S.STORING, _S.FAILED, _S.CANCELLING},
        _S.STORING: {_S.CHECKING, _S.FAILED, _S.CANCELLING},
        _S.CHECKING: {_S.BENCHMARKING, _S.PASSED, _S.REJECTED, _S.NEEDS_ITEMS, _S.FAILED, _S.CANCELLING},
        _S.BENCHMARKING: {_S.PASSED, _S.REJECTED, _S.FAILED, _S.CANCELLING},
        _S.CANCELLING: {_S.CANCELLED},
        **{state: set() for state in ENDED},
    }
)
