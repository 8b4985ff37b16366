"""What exports need of the store; see `references`."""

from collections.abc import Collection

from models_registry.models import Export
from models_registry.references import References


def _held(keys: Collection[str]) -> set[str]:
    return {row.intake_key for row in Export.objects.filter(is_held=True)} & set(keys)


EXPORTS = References(keys=_held)
