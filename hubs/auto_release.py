"""Where a version goes that a hub has brought: known to an app above, which the registry does not know."""

from collections.abc import Sequence
from typing import Protocol

from common.actor import Actor
from models_registry.models import Model, Version


class AutoRelease(Protocol):
    def services(self, actor: Actor, model: Model) -> Sequence[str]:
        """Names of the services to which the actor may release versions of the model."""

    def plans(self, actor: Actor, model: Model) -> Sequence[str]:
        """Names of the plans by which these services release."""

    def check(self, actor: Actor, model: Model, *, service: str, plan: str) -> None:
        """Raises NotAllowed, or Invalid for `release_to` or `release_plan`."""

    def release(self, actor: Actor, version: Version, *, service: str, plan: str, reason: str) -> str:
        """Set the version on its way; returns the release in words. Raises SlipwayError."""


_registered: list[AutoRelease] = []


def register_auto_release(auto_release: AutoRelease) -> None:
    """Have versions that hubs bring released by `auto_release`; the last registration counts."""
    _registered[:] = [auto_release]


def auto_release() -> AutoRelease:
    return _registered[0]
