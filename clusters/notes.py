"""Notes of the apps above on a deployment, asked for when a page shows it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DeploymentNote:
    text: str
    until: datetime | None
    url: str


NoteCheck = Callable[[], Mapping[str, DeploymentNote]]
"""By name of the deployment; called once for a page."""

_checks: list[NoteCheck] = []


def register_deployment_notes(check: NoteCheck) -> None:
    """Show its answers beside the deployments. Registering twice changes nothing."""
    if check not in _checks:
        _checks.append(check)


def deployment_notes() -> dict[str, DeploymentNote]:
    return {name: note for check in _checks for name, note in check().items()}
