"""Services that an optimised version can be released to."""

from urllib.parse import urlencode

from django.utils.translation import gettext as _

from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from models_registry.models import Version
from optimization.canary import CanaryLink
from releases.selectors.services import services_for


def canary_links(actor: Actor, version: Version) -> list[CanaryLink]:
    """Return the release forms of the services of its model, filled in with the version."""
    filled = urlencode(
        {
            "version": version.name,
            "reason": _("Optimised version of %(parent)s.") % {"parent": version.parent},
        }
    )
    return [
        CanaryLink(service.name, f"/services/{service.name}/release/?{filled}")
        for service in services_for(actor).filter(model=version.model).order_by("name")
        if service.stable_version_id != version.pk and may(actor, Right.RELEASES_START, service.team)
    ]
