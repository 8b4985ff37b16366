"""What the course of a run asks of whatever makes the load."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.load.max_rate import BrokenTargets
from benchmarks.load.prompts import TokenRatio
from benchmarks.load.records import WindowRecord
from benchmarks.load.scenario import LoadScenario


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """The addresses that requests go to in turn. `token` is sent as a bearer's and never recorded."""

    addresses: Sequence[str]
    """`http://10.0.0.7:8000`, without the path."""
    model: str
    token: str = field(default="", repr=False)


class LoadEngine(Protocol):
    name: str

    def check(self, scenario: LoadScenario) -> None:
        """Raises TooFewCores when this machine cannot make the load, UnfitScenario when the engine cannot."""

    def measure(
        self,
        scenario: LoadScenario,
        target: LoadTarget,
        ratio: TokenRatio,
        *,
        rate: float,
        window: int,
        broken: BrokenTargets | None = None,
    ) -> WindowRecord:
        """Send one window's requests by their schedule and return what came of each. An engine that can sends
        no more once `broken` says so."""


class UnfitScenario(Exception):
    """The message says what the engine cannot send, and what to do."""


class TooFewCores(Exception):
    """The message says how many the rate needs."""

    @classmethod
    def of(cls, rate: float, tokens: float, needed: int, cores: int) -> "TooFewCores":
        return cls(
            f"{rate:g} requests/s with {tokens:.0f} tokens each need {needed} cores of the load generator; "
            f"it has {cores}. Lower the rate, or give the generator a larger machine."
        )
