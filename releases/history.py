"""What the page of a version tells of its releases; see `models_registry.history`."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from common.actor import Actor
from models_registry.history import HistoryEntry
from models_registry.models import Version
from releases.models import Release
from releases.succession import with_succession


def releases_of(actor: Actor, version: Version, limit: int) -> Sequence[HistoryEntry]:
    rows = with_succession(Release.objects.for_actor(actor).filter(version=version))
    rows = rows.select_related("service").only("state", "requester", "created_at", "reason", "service__name")
    return [_entry(release) for release in rows.order_by("-pk")[:limit]]


def _entry(release: Release) -> HistoryEntry:
    if release.undone_by_id is not None:
        text = _("rolled back by #%(release)s") % {"release": release.undone_by_id}
    elif release.superseded_by_id is not None:
        text = _("superseded by #%(release)s") % {"release": release.superseded_by_id}
    else:
        text = release.reason
    names = {"release": release.pk, "service": release.service.name}
    return HistoryEntry(
        at=release.created_at,
        badge=("release", release.standing),
        title=_("#%(release)s to %(service)s") % names,
        url=f"/releases/{release.pk}/",
        by=release.requester,
        text=text,
    )
