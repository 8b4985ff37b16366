"""The scenarios that drills play, and what the rules in force say of their faults."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from gpu_health.judge import FaultVerdict, judge
from gpu_health.policy.rule import FaultRule, RemediationAction
from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingSource

FILE = Path(__file__).parent / "scenarios.toml"


class UnknownScenario(ValueError):
    """The text names those that there are."""


class DrillSource(StrEnum):
    """The source that reports the fault of a drill."""

    AGENT = "agent"
    CONDITION = "condition"
    PROVIDER = "provider"
    CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    title: str
    says: str
    source: str
    fault: str
    """That must be found."""
    healed_by: tuple[RemediationAction, ...]
    """Actions after which the machine is whole again."""
    parts: Mapping[DrillSource, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def ways(self) -> tuple[DrillSource, ...]:
        """The sources that can report this scenario, the most faithful first."""
        return tuple(way for way in DrillSource if way in self.parts)

    def part(self, way: DrillSource, **words: str) -> dict[str, Any]:
        """Return the part for this source, with each `{name}` replaced by the word of that name."""
        text = json.dumps(self.parts[way])
        for name, word in words.items():
            text = text.replace("{" + name + "}", json.dumps(word)[1:-1])
        found: dict[str, Any] = json.loads(text)
        return found

    def heals(self, action: str) -> bool:
        return action in self.healed_by


SOURCES: Mapping[DrillSource, ReadingSource] = {
    DrillSource.CONDITION: ReadingSource.NODE_CONDITION,
    DrillSource.PROVIDER: ReadingSource.PROVIDER,
    DrillSource.CHECK: ReadingSource.CHECK,
}


@cache
def scenarios() -> Mapping[str, Scenario]:
    """Return the scenarios by name, in the order of the file."""
    return {name: _read(name, one) for name, one in tomllib.loads(FILE.read_text()).items()}


def scenario(name: str) -> Scenario:
    """Raises UnknownScenario."""
    found = scenarios().get(name)
    if found is None:
        raise UnknownScenario(f"There is no scenario {name}. Those that there are: {', '.join(scenarios())}.")
    return found


def expected(played: Scenario, way: DrillSource, rules: Sequence[FaultRule]) -> FaultVerdict:
    """Return the verdict of the rules once the fault was seen as often as they ask for."""
    asked = [rule for rule in rules if rule.fault == played.fault and rule.enabled]
    times = min((rule.conditions.count for rule in asked), default=1)
    source = SOURCES.get(
        way, ReadingSource.NVML if played.fault.partition(".")[0] != "xid" else ReadingSource.KERNEL_LOG
    )
    seen = [
        GpuReading(
            source=source, fault=played.fault, at=float(index), clock=ReadingClock.EPOCH, gpu_bus_id=_bus(way)
        )
        for index in range(times)
    ]
    (verdict,) = judge(seen, rules)
    return verdict


def _bus(way: DrillSource) -> str:
    return "0000:1b:00" if way in (DrillSource.AGENT, DrillSource.CHECK) else ""


def _read(name: str, document: Mapping[str, Any]) -> Scenario:
    words = {key: str(document[key]) for key in ("title", "says", "source", "fault")}
    return Scenario(
        name=name,
        healed_by=tuple(map(RemediationAction, document["healed_by"])),
        parts={way: document[way] for way in DrillSource if way in document},
        **words,
    )
