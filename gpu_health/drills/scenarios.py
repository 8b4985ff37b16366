"""The scenarios that drills play, and what the rules in force say of their faults."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from gpu_health.judge import Verdict, judge
from gpu_health.policy.rule import Action, Rule
from gpu_health.signals.reading import Clock, Reading, Source

FILE = Path(__file__).parent / "scenarios.toml"


class UnknownScenario(ValueError):
    """The text names those that there are."""


class Way(StrEnum):
    """By which source a scenario is told."""

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
    healed_by: tuple[Action, ...]
    """Actions after which the machine is whole again."""
    parts: Mapping[Way, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Those that it can be played by, the most faithful first."""
        return tuple(way for way in Way if way in self.parts)

    def part(self, way: Way, **words: str) -> dict[str, Any]:
        """With `{name}` replaced by the word of that name."""
        text = json.dumps(self.parts[way])
        for name, word in words.items():
            text = text.replace("{" + name + "}", json.dumps(word)[1:-1])
        found: dict[str, Any] = json.loads(text)
        return found

    def heals(self, action: str) -> bool:
        return action in self.healed_by


SOURCES: Mapping[Way, Source] = {
    Way.CONDITION: Source.NODE_CONDITION,
    Way.PROVIDER: Source.PROVIDER,
    Way.CHECK: Source.CHECK,
}


@cache
def scenarios() -> Mapping[str, Scenario]:
    """By name, in the order of the file."""
    return {name: _read(name, one) for name, one in tomllib.loads(FILE.read_text()).items()}


def scenario(name: str) -> Scenario:
    """Raises UnknownScenario."""
    found = scenarios().get(name)
    if found is None:
        raise UnknownScenario(f"There is no scenario {name}. Those that there are: {', '.join(scenarios())}.")
    return found


def expected(played: Scenario, way: Way, rules: Sequence[Rule]) -> Verdict:
    """What the rules say once the fault was seen as often as they ask for."""
    asked = [rule for rule in rules if rule.fault == played.fault and rule.enabled]
    times = min((rule.conditions.count for rule in asked), default=1)
    source = SOURCES.get(way, Source.NVML if played.fault.partition(".")[0] != "xid" else Source.KERNEL_LOG)
    seen = [
        Reading(source=source, fault=played.fault, at=float(index), clock=Clock.EPOCH, gpu_bus_id=_bus(way))
        for index in range(times)
    ]
    (verdict,) = judge(seen, rules)
    return verdict


def _bus(way: Way) -> str:
    return "0000:1b:00" if way in (Way.AGENT, Way.CHECK) else ""


def _read(name: str, document: Mapping[str, Any]) -> Scenario:
    words = {key: str(document[key]) for key in ("title", "says", "source", "fault")}
    return Scenario(
        name=name,
        healed_by=tuple(map(Action, document["healed_by"])),
        parts={way: document[way] for way in Way if way in document},
        **words,
    )
