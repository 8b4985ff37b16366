from collections.abc import Mapping
from typing import Any

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class BenchmarkState(TextChoices):
    RUNNING = "running", _("Running")
    CANCELLING = "cancelling", _("Cancelling")
    FINISHED = "finished", _("Finished")
    FAILED = "failed", _("Failed")
    """No configuration has a valid run."""
    CANCELLED = "cancelled", _("Cancelled")


class RunState(TextChoices):
    WAITING = "waiting", _("Waiting")
    """For its turn, and for its machine."""
    DEPLOYING = "deploying", _("Deploying")
    MEASURING = "measuring", _("Measuring")
    COLLECTING = "collecting", _("Collecting")
    REMOVING = "removing", _("Removing")
    """Its generator and its workers."""
    VALID = "valid", _("Valid")
    INVALID = "invalid", _("Invalid")
    """It was measured, or broke off, in a way that compares with nothing."""
    FAILED = "failed", _("Failed")
    """The configuration does not run: a result of its own."""
    CANCELLED = "cancelled", _("Cancelled")


class Strategy(TextChoices):
    GRID = "grid", _("Grid")
    STAGED = "staged", _("Staged search")
    OPTUNA = "optuna", _("Bayesian search (optuna)")


class PriorKind(TextChoices):
    """The source of the first order of configurations, before anything is measured; see `prior`."""

    ROOFLINE = "roofline", _("Roofline")
    AICONFIGURATOR = "aiconfigurator", "AIConfigurator"  # untranslated


class LoadEngineKind(TextChoices):
    """Engines that send the requests; see `load.engine.LoadEngine`."""

    BUILTIN = "builtin", _("Built-in")
    AIPERF = "aiperf", "AIPerf"  # untranslated


class ObjectiveKind(TextChoices):
    GOODPUT = "goodput", _("Goodput")
    GOODPUT_PER_PRICE = "goodput_per_price", _("Goodput per price")
    LATENCY = "latency", _("Latency at a rate")


ARRIVALS: Mapping[str, Any] = {
    "poisson": _("Poisson"),
    "constant": _("Constant"),
    "gamma": _("Gamma"),
    "trace": _("Trace"),
    "concurrency": _("Fixed concurrency"),
}
"""Names of `load.scenario.Arrivals`."""

_B, _R = BenchmarkState, RunState

BENCHMARK_ENDED = frozenset({_B.FINISHED, _B.FAILED, _B.CANCELLED})
BENCHMARK_MOVES: StateMachine[BenchmarkState] = StateMachine(
    {
        _B.RUNNING: {_B.CANCELLING, _B.FINISHED, _B.FAILED},
        _B.CANCELLING: {_B.CANCELLED},
        **{state: set() for state in BENCHMARK_ENDED},
    }
)

RUN_ENDED = frozenset({_R.VALID, _R.INVALID, _R.FAILED, _R.CANCELLED})
RUN_MOVES: StateMachine[RunState] = StateMachine(
    {
        _R.WAITING: {_R.DEPLOYING, _R.CANCELLED},
        _R.DEPLOYING: {_R.MEASURING, _R.REMOVING},
        _R.MEASURING: {_R.COLLECTING, _R.REMOVING},
        _R.COLLECTING: {_R.REMOVING},
        _R.REMOVING: set(RUN_ENDED),
        **{state: set() for state in RUN_ENDED},
    }
)
