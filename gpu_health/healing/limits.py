"""The figures that guards go by. Defaults are those that the field uses; an installation changes them."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from typing import Any, Self

from gpu_health.policy.rule import RemediationAction, Severity

MAX_SECONDS = 30 * 86_400


class BadLimits(ValueError):
    """A figure that cannot be meant; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealingLimits:
    """Times in seconds, shares in percent of the machines of a pool."""

    slots_percent: float = 10.0
    """Machines of a pool that are drained and repaired at the same time; always one at least."""
    unhealthy_percent: float = 20.0
    """Machines of a pool that may be out of service, whoever took them out and however long ago; one at
    least. Healing quarantines no further one, and repairs none while there are more."""
    unhealthy_above: int = 5
    """Repairs stop for that only in pools of more machines than this."""
    repairs_per_hour: int = 3
    """In a pool, or `repairs_percent` of its machines if these are more."""
    repairs_percent: float = 10.0
    seconds_between_drains: float = 600.0
    """In a pool of more than one machine."""
    breaker_percent: float = 50.0
    """So many of a pool cordoned within `breaker_seconds` open its breaker; two machines at least."""
    breaker_seconds: float = 300.0
    wait_seconds: Mapping[str, float] = field(
        default_factory=lambda: {"fatal": 0.0, "critical": 60.0, "warning": 600.0, "info": 600.0}
    )
    """From the first sight of a fault to the first action on it, by severity; machines are quarantined at
    once."""
    fault_wait_seconds: Mapping[str, float] = field(default_factory=dict)
    """The same by fault, in its place."""
    cooldown_seconds: float = 300.0
    """From the end of one incident of a machine to the first action of its next."""
    lemon_remediations: int = 5
    lemon_seconds: float = 7 * 86_400.0
    """A machine that was acted on so often in that time is a lemon: a person looks at it."""
    domain_percent: float = 50.0
    """So many bad machines of a rack or NVLink domain, two at least: the domain is at fault."""
    approved_actions: tuple[str, ...] = ("reboot", "power_cycle", "replace", "reset_bus")
    """Each takes the approval of a person, whatever the mode of its rule."""
    approval_seconds: float = 86_400.0
    drain_seconds: float = 3_600.0
    """A drain that is blocked for longer waits for a person."""
    action_seconds: float = 1_800.0
    check_seconds: float = 3_600.0
    quiet_seconds: float = 30.0
    """Without a fault after an action, before the machine returns."""
    watch_seconds: float = 600.0
    """Without a fault after the return, before the incident is closed."""

    def wait_for(self, fault: str, severity: str) -> timedelta:
        default = self.wait_seconds.get(severity, 600.0)
        return timedelta(seconds=self.fault_wait_seconds.get(fault, default))

    def slots(self, machines: int) -> int:
        return max(1, math.floor(machines * self.slots_percent / 100))

    def out_of_service(self, machines: int) -> int:
        return max(1, math.floor(machines * self.unhealthy_percent / 100))

    def repairs(self, machines: int) -> int:
        return max(self.repairs_per_hour, math.floor(machines * self.repairs_percent / 100))

    def breaker_at(self, machines: int) -> int:
        """The number of machines cordoned that opens the breaker."""
        return max(2, math.ceil(machines * self.breaker_percent / 100))

    def domain_at(self, machines: int) -> int:
        return max(2, math.ceil(machines * self.domain_percent / 100))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Read limits; missing ones have their defaults. Raises BadLimits."""
        plain = cls()
        values: dict[str, Any] = {}
        known = {one.name for one in fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise BadLimits(f"There is no limit {name}. Known: {', '.join(sorted(known))}.")
            default = getattr(plain, name)
            if isinstance(default, Mapping):
                values[name] = _seconds_by(name, value, set(Severity) if name == "wait_seconds" else None)
                if name == "wait_seconds":
                    values[name] = {**default, **values[name]}
            elif isinstance(default, tuple):
                values[name] = _actions(name, value)
            else:
                values[name] = _number(name, value, whole=isinstance(default, int))
        return cls(**values)


def _number(name: str, value: object, *, whole: bool = False) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadLimits(f"{name} must be a number.")
    most = 100 if name.endswith("_percent") else MAX_SECONDS
    if not 0 <= value <= most:
        raise BadLimits(f"{name} must be from 0 to {most}.")
    if whole and value != int(value):
        raise BadLimits(f"{name} must be a whole number.")
    return int(value) if whole else float(value)


def _seconds_by(name: str, value: object, known: set[Severity] | None) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise BadLimits(f"{name} must be an object of seconds.")
    for key in value:
        if not isinstance(key, str) or (known is not None and key not in set(map(str, known))):
            raise BadLimits(f"{name} has no {key}.")
    return {key: _number(f"{name}.{key}", seconds) for key, seconds in value.items()}


def _actions(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise BadLimits(f"{name} must be a list of actions.")
    known = set(map(str, RemediationAction))
    if unknown := [one for one in value if one not in known]:
        raise BadLimits(f"{name}: there is no action {unknown[0]}. Known: {', '.join(sorted(known))}.")
    return tuple(value)
