"""Options of a drain, as somebody ordered it. Pure.

After kubectl's drain (`--force`, `--delete-emptydir-data`, `--ignore-daemonsets`), with a policy for each
namespace and a drain of the pods that have GPUs alone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from django.utils.translation import gettext as _

MOST_SECONDS = 7 * 24 * 3600
USUAL_SECONDS = 3600
CHECKPOINT_SECONDS = 900
REPLACE_SECONDS = 600
EVERY_NAMESPACE = "*"


class PodPolicy(StrEnum):
    """Treatment of the pods of a namespace."""

    EVICT = "evict"
    """They are sent away at once."""
    FINISH = "finish"
    """They may finish by themselves, for as long as is said; then they are sent away."""
    LEAVE = "leave"
    """They stay."""


@dataclass(frozen=True, slots=True)
class NamespacePolicy:
    policy: PodPolicy = PodPolicy.EVICT
    within_seconds: int = USUAL_SECONDS
    """With `finish`."""
    checkpoint_url: str = ""
    """Of a webhook that keeps the work of its pods before they are evicted; empty: there is none."""

    @property
    def text(self) -> str:
        """`finish:1800 https://...`, as `namespaces_of` reads it."""
        spoken = (
            f"{self.policy}:{self.within_seconds}" if self.policy is PodPolicy.FINISH else str(self.policy)
        )
        return f"{spoken} {self.checkpoint_url}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    grace_seconds: int | None = None
    """How long a pod that is asked to end may go on; None: as long as it asks for itself."""
    within_seconds: int = USUAL_SECONDS
    """The whole drain; what is still there then is named, and it has failed."""
    daemons_are_left: bool = True
    """Otherwise a pod of a DaemonSet, which comes back at once, stops the drain."""
    local_data_may_go: bool = False
    """Pods whose volumes end with them (emptyDir) are sent away; otherwise they stop the drain."""
    unowned_may_go: bool = False
    """Pods that nothing makes anew elsewhere are sent away; otherwise they stop the drain."""
    past_budgets: bool = False
    """Pods are deleted instead of evicted: disruption budgets do not hold."""
    checkpoint_seconds: int = CHECKPOINT_SECONDS
    """Pods that ask for it keep their work first, for so long at the most; 0: nobody is asked."""
    replace_seconds: int = REPLACE_SECONDS
    """So long our own workers there wait at the most for others that are ready elsewhere, and no longer than
    half of the drain's time; 0: none are started first."""
    gpu_pods_only: bool = False
    """Pods without GPUs stay."""
    namespaces: Mapping[str, NamespacePolicy] = field(default_factory=dict)
    """By name; `*`: all others."""

    def policy_of(self, namespace: str) -> NamespacePolicy:
        return self.namespaces.get(namespace) or self.namespaces.get(EVERY_NAMESPACE) or NamespacePolicy()

    def document(self) -> dict[str, Any]:
        """Return the options as JSON."""
        found = asdict(self)
        found["namespaces"] = {
            name: {
                "policy": str(one.policy),
                "within_seconds": one.within_seconds,
                "checkpoint_url": one.checkpoint_url,
            }
            for name, one in self.namespaces.items()
        }
        return found

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the options; those that this release does not know are dropped."""
        known = {one.name for one in fields(cls)}
        given = {name: value for name, value in document.items() if name in known}
        given["namespaces"] = {
            name: NamespacePolicy(
                PodPolicy(one["policy"]),
                int(one.get("within_seconds", USUAL_SECONDS)),
                str(one.get("checkpoint_url", "")),
            )
            for name, one in given.get("namespaces", {}).items()
        }
        return cls(**given)

    def faults(self) -> dict[str, str]:
        """Return invalid options by field, in words."""
        found = {}
        spans = {"within_seconds": self.within_seconds}
        if self.grace_seconds is not None:
            spans["grace_seconds"] = self.grace_seconds
        for name, seconds in spans.items():
            if not (0 if name == "grace_seconds" else 1) <= seconds <= MOST_SECONDS:
                found[name] = _("Give seconds, at most seven days.")
        for name in ("checkpoint_seconds", "replace_seconds"):
            if not 0 <= getattr(self, name) <= MOST_SECONDS:
                found[name] = _("Give seconds, at most seven days.")
        if self.grace_seconds == 0:
            found["grace_seconds"] = _(
                "A pod needs a moment to end: without one its machine may still run it while another takes "
                "its place."
            )
        if any(not 0 <= one.within_seconds <= MOST_SECONDS for one in self.namespaces.values()):
            found["namespaces"] = _("Give seconds, at most seven days.")
        return found


def namespaces_of(text: str) -> dict[str, NamespacePolicy]:
    """Read one namespace a line: `NAME = evict`, `NAME = leave` or `NAME = finish:SECONDS`, each with or
    without the address of a checkpoint webhook after it. Raises ValueError, in words, for any other line.
    """
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _equals, said = (part.strip() for part in line.partition("="))
        spoken, _space, url = said.partition(" ")
        policy, _colon, seconds = spoken.partition(":")
        is_timed = policy == PodPolicy.FINISH and seconds.isdecimal()
        if not name or policy not in set(PodPolicy) or (seconds and not is_timed):
            raise ValueError(
                _("%(line)s: give NAME = evict, NAME = leave or NAME = finish:SECONDS.") % {"line": line}
            )
        if name in found:
            raise ValueError(_("%(name)s is named twice.") % {"name": name})
        found[name] = NamespacePolicy(
            PodPolicy(policy), int(seconds[:9]) if seconds else USUAL_SECONDS, url.strip()
        )
    return found


def text_of(namespaces: Mapping[str, NamespacePolicy]) -> str:
    return "\n".join(f"{name} = {one.text}" for name, one in namespaces.items())
