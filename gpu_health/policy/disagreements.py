"""Where the sources contradict each other about a fault."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_health.policy.presets import PRESETS, RulePreset, faults, preset
from gpu_health.policy.rule import FaultRule
from gpu_health.signals.xid import RECOVERY_ACTION

UNUSED = "Unused"
"""What NVIDIA's catalog calls numbers of Xids that are retired, or of V100 and earlier."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A preset's rules about a fault, in the order in which they ask for more."""

    rules: Sequence[FaultRule]

    @property
    def acts_on_node(self) -> bool:
        return any(rule.acts_on_node for rule in self.rules)

    @property
    def strictest(self) -> FaultRule:
        return max(self.rules, key=lambda rule: (rule.acts_on_node, rule.severity.rank))


@dataclass(frozen=True, slots=True)
class SourceComparison:
    fault: str
    statements: Mapping[str, Statement]
    """By the name of the preset; one that does not speak of the fault is not there."""

    @property
    def is_disputed(self) -> bool:
        """Whether some would touch the machine and others, who speak of machines as well, would not."""
        said = {self.statements[one.name].acts_on_node for one in PRESETS if self._counts(one)}
        return len(said) > 1

    @property
    def is_unused(self) -> bool:
        """The driver reports it no more."""
        return faults()[self.fault].title == UNUSED

    def _counts(self, one: RulePreset) -> bool:
        return one.speaks_of_machines and one.name in self.statements


def comparisons() -> Iterator[SourceComparison]:
    """Yield a comparison for each fault that more than one preset covers, except RECOVERY_ACTION."""
    by_preset = {one.name: _by_fault(one.name) for one in PRESETS}
    for fault in faults():
        statements = {name: Statement(said[fault]) for name, said in by_preset.items() if fault in said}
        if len(statements) > 1 and fault != RECOVERY_ACTION:
            yield SourceComparison(fault, statements)


def _by_fault(name: str) -> Mapping[str, list[FaultRule]]:
    found: dict[str, list[FaultRule]] = {}
    for rule in preset(name):
        found.setdefault(rule.fault, []).append(rule)
    return found
