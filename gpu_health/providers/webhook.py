"""A provider behind one address: every order and every question is a signed POST to it."""

import json
import time
from collections.abc import Callable

from common.webhooks.destination import AllowedHosts
from common.webhooks.sending import OK, DeliveryResponse, post
from common.webhooks.signing import headers as signatures
from gpu_health.providers.base import Deed, DeedStatus, ProviderAway, ProviderMachine, told_of

Post = Callable[..., DeliveryResponse]


class WebhookProvider:
    """Sends `{"action", "op_key", "machine", "reason"}`, `action` being `status` for a question, with `deed`;
    is answered with `{"state", "words"}`. The `webhook-id` of an order is its op_key."""

    def __init__(self, url: str, *, secret: str, allowed: AllowedHosts, post: Post = post) -> None:
        self._url, self._secret, self._allowed, self._post = url, secret, allowed, post

    def order(self, deed: Deed, machine: ProviderMachine, op_key: str, reason: str) -> DeedStatus:
        return self._ask({"action": str(deed), "reason": reason}, machine, op_key)

    def status(self, deed: Deed, machine: ProviderMachine, op_key: str) -> DeedStatus:
        return self._ask({"action": "status", "deed": str(deed)}, machine, op_key)

    def _ask(self, said: dict[str, str], machine: ProviderMachine, op_key: str) -> DeedStatus:
        body = json.dumps({**said, "op_key": op_key, "machine": machine.to_dict()}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{said['action']}:{op_key}"}
        if self._secret:
            stamp = int(time.time())
            headers |= signatures([self._secret], message_id=op_key, timestamp=stamp, body=body)
        answer = self._post(self._url, body=body, headers=headers, allowed=self._allowed)
        if answer.error or answer.status not in OK:
            raise ProviderAway(f"The provider of machines: {answer.error or f'HTTP {answer.status}'}")
        try:
            return told_of(json.loads(answer.body))
        except ValueError:
            return told_of(None)
