"""What webhooks tell of webhooks themselves."""

from accounts.models import WebhookEndpoint
from common.webhooks.catalogue import EventPayload, Ids


def endpoint_payload(ids: Ids) -> EventPayload | None:
    endpoint = WebhookEndpoint.objects.filter(pk=ids["webhook_id"]).first()
    return EventPayload(endpoint.team_id, {**ids, "host": endpoint.host}) if endpoint else None
