"""A rule: which fault under which conditions is how bad, what to do, and who says so. Data, no code."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_health.signals.reading import NOTHING

MAX_COUNT = 1_000
MAX_WINDOW_SECONDS = 30 * 86_400.0
_FAULT = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
_VERSION = re.compile(r"\d{1,5}(\.\d{1,5}){0,3}")


class BadRule(ValueError):
    """A rule that cannot be meant; the text says what to change."""


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
    FATAL = "fatal"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class DrainLevel(StrEnum):
    """The pods that leave before an action: none, those of the GPU, or all of the node."""

    NONE = "none"
    GPU = "gpu"
    NODE = "node"

    @property
    def rank(self) -> int:
        return list(DrainLevel).index(self)


class Mode(StrEnum):
    OFF = "off"
    RECORD = "record"
    PROPOSE = "propose"
    ACT = "act"

    @property
    def rank(self) -> int:
        return list(Mode).index(self)


class Verification(StrEnum):
    """The check that must pass before a device returns to service."""

    NONE = "none"
    DCGM_DIAGNOSTIC = "dcgm_diagnostic"
    """`dcgmi diag -r 2`."""
    CHECK_JOB = "check_job"
    """A Job of ours that computes with torch and compares values."""
    NCCL_BANDWIDTH = "nccl_bandwidth"
    PERSON = "person"
    """Nothing returns it but a person."""


class RemediationAction(StrEnum):
    IGNORE = "ignore"
    ALERT = "alert"
    CONTACT_SUPPORT = "contact_support"
    RESTART_APP = "restart_app"
    RESTART_DAEMON = "restart_daemon"
    """Of the machine: time, container runtime, kubelet; the fault says which."""
    RESTART_FABRIC_MANAGER = "restart_fabric_manager"
    RESTART_DEVICE_PLUGIN = "restart_device_plugin"
    ENABLE_PERSISTENCE = "enable_persistence"
    CORDON = "cordon"
    WITHDRAW_GPU = "withdraw_gpu"
    """No new pods on this GPU; those that run go on."""
    DRAIN_P2P = "drain_p2p"
    RECOVER_IMEX = "recover_imex"
    RESET_GPU = "reset_gpu"
    RESET_BUS = "reset_bus"
    RESTART_DRIVER = "restart_driver"
    REBOOT = "reboot"
    POWER_CYCLE = "power_cycle"
    FIELD_DIAGNOSTIC = "field_diagnostic"
    REPLACE = "replace"

    @property
    def touches_node(self) -> bool:
        """Whether it changes the machine or takes it, or a GPU of it, from those who use it."""
        return self not in _HARMLESS

    @property
    def needs_idle_driver(self) -> bool:
        """Whether nothing may have the GPU open meanwhile, what watches over GPUs included."""
        return self in (
            RemediationAction.RESET_GPU,
            RemediationAction.RESET_BUS,
            RemediationAction.RESTART_DRIVER,
        )

    @property
    def is_told_only(self) -> bool:
        """Whether the action is left to people."""
        return self in (RemediationAction.IGNORE, RemediationAction.ALERT, RemediationAction.CONTACT_SUPPORT)

    @property
    def least_drain(self) -> DrainLevel:
        """Pods that this action would end: they are drained first, whatever a rule says."""
        return _LEAST_DRAIN.get(self, DrainLevel.NONE)


_HARMLESS = {
    RemediationAction.IGNORE,
    RemediationAction.ALERT,
    RemediationAction.CONTACT_SUPPORT,
    RemediationAction.RESTART_APP,
}
_LEAST_DRAIN = {
    RemediationAction.DRAIN_P2P: DrainLevel.GPU,
    RemediationAction.RESET_GPU: DrainLevel.GPU,
    RemediationAction.RESET_BUS: DrainLevel.NODE,
    RemediationAction.RECOVER_IMEX: DrainLevel.NODE,
    # Ends CUDA jobs by default: ABORT_CUDA_JOBS_ON_FM_EXIT.
    RemediationAction.RESTART_FABRIC_MANAGER: DrainLevel.NODE,
    RemediationAction.RESTART_DRIVER: DrainLevel.NODE,
    RemediationAction.REBOOT: DrainLevel.NODE,
    RemediationAction.POWER_CYCLE: DrainLevel.NODE,
    RemediationAction.FIELD_DIAGNOSTIC: DrainLevel.NODE,
    RemediationAction.REPLACE: DrainLevel.NODE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """`count` readings within `window_seconds` on the same GPU and with the same `same` details.

    `details` must be as given, `value` in [value_at_least, value_below). `alone_seconds`: no Xid of another
    number on the GPU so long before and after. Driver versions compare by their numbers; a version that is
    not known fulfils neither bound.
    """

    count: int = 1
    window_seconds: float = 0.0
    same: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    value_at_least: float | None = None
    value_below: float | None = None
    alone_seconds: float = 0.0
    driver_at_least: str = ""
    driver_below: str = ""

    @property
    def weight(self) -> int:
        """The amount asked for: of rules that hold alike, the one that asks for more is used."""
        bounds = (self.value_at_least, self.value_below)
        texts = (self.driver_at_least, self.driver_below)
        return (
            self.count
            + len(self.details)
            + len(self.same)
            + sum(bound is not None for bound in bounds)
            + sum(map(bool, texts))
            + bool(self.alone_seconds)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    source: str
    """Of `sources.csv`: a document and its date; or a person of this installation."""
    says: str
    """In the source's own words, as short as it goes."""
    is_inferred: bool = False
    """The source names the fault, but not this severity or action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """`ladder` is climbed from its first action on, a step when the one before did not help.

    `drain` is the least that is drained before a step; a step that would end more pods drains those too.
    Raises BadRule.
    """

    name: str
    fault: str
    conditions: Conditions = Conditions()
    severity: Severity
    ladder: tuple[RemediationAction, ...]
    drain: DrainLevel = DrainLevel.NONE
    verification: Verification = Verification.NONE
    citation: Citation
    enabled: bool = True
    mode: Mode = Mode.PROPOSE
    is_own: bool = False
    """Of this installation: where it holds, it outranks those of documents."""

    def __post_init__(self) -> None:
        conditions = self.conditions
        if not _FAULT.fullmatch(self.fault):
            raise BadRule(
                "The fault must be one dotted lower-case name, such as xid.79: a rule has no wildcards."
            )
        if not self.ladder:
            raise BadRule("The ladder is empty: name at least one action, such as alert.")
        if len(set(self.ladder)) != len(self.ladder):
            raise BadRule("The ladder names an action twice.")
        if RemediationAction.IGNORE in self.ladder[1:]:
            raise BadRule("ignore can only be the first action of a ladder.")
        if not 1 <= conditions.count <= MAX_COUNT:
            raise BadRule(f"The count must be from 1 to {MAX_COUNT}.")
        if not 0 <= conditions.window_seconds <= MAX_WINDOW_SECONDS:
            raise BadRule("The window must be from 0 s to 30 days.")
        if conditions.count > 1 and not conditions.window_seconds:
            raise BadRule("A count above 1 needs a window.")
        if not 0 <= conditions.alone_seconds <= 3_600:
            raise BadRule("alone_seconds must be from 0 to 3600.")
        for bound in (conditions.value_at_least, conditions.value_below):
            if bound is not None and not math.isfinite(bound):
                raise BadRule("Bounds of the value must be finite numbers.")
        for version in (conditions.driver_at_least, conditions.driver_below):
            if version and not _VERSION.fullmatch(version):
                raise BadRule(f"{version} is no driver version, such as 570.86.15.")
        if self.fault.startswith(("detector.", "unread.")) and self.acts:
            raise BadRule(
                "A failing detector never acts, nor does a line that could not be read: only ignore, alert, "
                "contact_support may follow from it."
            )
        first = self.ladder[0]
        if self.drain is DrainLevel.GPU and first.least_drain is DrainLevel.NODE:
            raise BadRule(
                f"{first} ends the pods of the whole machine, but only those of one GPU are drained: "
                "set the drain to node."
            )

    @property
    def acts_on_node(self) -> bool:
        return any(action.touches_node for action in self.ladder)

    @property
    def acts(self) -> bool:
        return not all(action.is_told_only for action in self.ladder)


def version_key(text: str) -> tuple[int, ...]:
    """Return a key that compares driver versions; empty: the text is no version."""
    return tuple(map(int, text.split("."))) if _VERSION.fullmatch(text) else ()
