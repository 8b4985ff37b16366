"""Clusters tell which images they could not pull, and that they can again."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_for_owner
from accounts.states import Right
from common import audit
from common.actor import Actor
from images.errors import ImageNotDeprecated
from images.models import ImagePullFailure, RuntimeImage

SEEN_AGAIN = timedelta(minutes=1)
ACTOR = Actor.system("images")


@transaction.atomic
def note_pull_failure(
    image: RuntimeImage, *, cluster: str, team: Team | None, reason: str, at: datetime
) -> None:
    """Mark the image on that cluster; one that is marked already says when it last failed, and why."""
    marked = ImagePullFailure.objects.filter(image=image, cluster=cluster)
    if (row := marked.first()) is not None:
        if row.reason != reason or at - row.at >= SEEN_AGAIN:
            marked.update(reason=reason, at=at, team=team)
        return
    row, is_new = ImagePullFailure.objects.get_or_create(
        image=image, cluster=cluster, defaults={"team": team, "reason": reason, "since": at, "at": at}
    )
    if is_new:
        detail = {"cluster": cluster}
        team_id = image.team_id
        audit.record(ACTOR, "image.pull_failed", subject=image, reason=reason, detail=detail, team_id=team_id)


def note_pulls(digests: Iterable[tuple[str, datetime | None]], *, cluster: str) -> None:
    """Take the marks of images that the cluster pulled after their last failure; None: just now."""
    marked = ImagePullFailure.objects.filter(cluster=cluster).select_related("image")
    pulled: dict[str, list[datetime | None]] = {}
    for digest, at in digests:
        pulled.setdefault(digest, []).append(at)
    for row in marked.filter(image__digest__in=pulled):
        if any(at is None or at > row.at for at in pulled[row.image.digest]):
            _clear(row, actor=ACTOR)


def clear_pull_failure(*, actor: Actor, image: RuntimeImage, cluster: str, reason: str) -> None:
    """Let releases on that cluster choose it again. Raises NotAllowed, ImageNotDeprecated where none is
    noted.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, image.team)
    row = ImagePullFailure.objects.for_actor(actor).filter(image=image, cluster=cluster).first()
    if row is None:
        raise ImageNotDeprecated(
            _("No failed pull of %(image)s by cluster %(cluster)s is noted.")
            % {"image": image, "cluster": cluster[:63]}
        )
    _clear(row, actor=actor, reason=reason)


def forget_cluster(cluster: str) -> None:
    """The cluster is gone: another one may get its name."""
    ImagePullFailure.objects.filter(cluster=cluster).delete()


@transaction.atomic
def _clear(row: ImagePullFailure, *, actor: Actor, reason: str = "") -> None:
    if not ImagePullFailure.objects.filter(pk=row.pk).delete()[0]:
        return
    audit.record(
        actor,
        "image.pull_cleared",
        subject=row.image,
        reason=reason,
        detail={"cluster": row.cluster},
        team_id=row.image.team_id,
    )
