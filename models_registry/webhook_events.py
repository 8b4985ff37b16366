"""What webhooks tell of versions and aliases, with REST's documents."""

from common.webhooks.catalogue import EventPayload, Ids
from models_registry.api.serializers import AliasMoveSerializer, VersionSerializer
from models_registry.models import AliasMove, Version
from models_registry.selectors import versions


def version_payload(ids: Ids) -> EventPayload | None:
    version = Version.objects.select_related("model", "parent__model").filter(pk=ids["version_id"]).first()
    if version is None:
        return None
    card = versions.version_card(version)
    return EventPayload(version.model.team_id, {**ids, "version": VersionSerializer(card).data})


def alias_move_payload(ids: Ids) -> EventPayload | None:
    rows = AliasMove.objects.select_related("model", "from_version", "to_version")
    move = rows.filter(pk=ids["move_id"]).first()
    if move is None:
        return None
    shown = {"model": move.model.name, "move": AliasMoveSerializer(move).data}
    return EventPayload(move.model.team_id, {**ids, **shown})
