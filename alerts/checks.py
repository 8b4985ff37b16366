"""The checks that apps declare, by name."""

from collections.abc import Mapping

from common.alert_checks import AlertCheck
from common.declared import manifests


def checks() -> Mapping[str, AlertCheck]:
    return {check.name: check for manifest in manifests() for check in manifest.alert_checks}


def title_of(name: str) -> str:
    """Return the title in the reader's language; of an outside alert, its name."""
    check = checks().get(name)
    return str(check.title) if check else name


def note_of(name: str) -> str:
    check = checks().get(name)
    return str(check.note) if check else ""
