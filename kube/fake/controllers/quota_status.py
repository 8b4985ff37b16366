"""ResourceQuotas say what their namespace holds."""

from kube.fake import quotas
from kube.fake.controllers.controller_tools import ControllerTools
from kube.fake.defaults import canonical


def step(hands: ControllerTools) -> None:
    server = hands.server
    for quota in hands.look(quotas.QUOTAS):
        hard = quota["spec"].get("hard") or {}
        held = quotas.used_in(
            server.storage, server.admission.kinds, quota["metadata"]["namespace"], set(hard)
        )
        status = {"hard": dict(hard), "used": {name: canonical(held.get(name, 0)) for name in hard}}
        if quota.get("status") != status:
            hands.set_status(quotas.QUOTAS, quota, status)
