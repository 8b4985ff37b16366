"""What exports need of the store; see `references`."""

from collections.abc import Collection

from hubs.models import Export
from model_store.references import References


def _held(keys: Collection[str]) -> set[str]:
    return {row.staging_key for row in Export.objects.filter(is_held=True)} & set(keys)


EXPORTS = References(keys=_held)
