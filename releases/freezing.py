"""Which freeze holds a release."""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat
from django.utils.translation import gettext as _

from common.pages import formats
from common.reconcile import kernel
from common.sentences import joined
from freezes.models import Freeze
from freezes.selectors import ActiveFreeze, freeze_now
from releases.environment_models import EnvironmentStage
from releases.models import Release, Service


def freeze_of(service: Service, *, made_after: datetime | None = None) -> ActiveFreeze | None:
    """Return the freeze that keeps releases of the service from starting; None: they may start.

    `made_after`: only such freezes count; None: all.
    """
    return freeze_now(
        team=service.team_id,
        service=service.name,
        cluster=service.cluster_id,
        in_stage=Exists(_stages(OuterRef("stage")).filter(service=service.pk)),
        at=kernel.clock(),
        made_after=made_after,
    )


def concerns_any(freeze: Freeze) -> bool:
    """Whether the freeze concerns any service that there is."""
    rows = Service.objects.all() if freeze.team is None else Service.objects.filter(team=freeze.team)
    if freeze.service:
        rows = rows.filter(name=freeze.service)
    if freeze.cluster is not None:
        rows = rows.filter(cluster=freeze.cluster)
    if freeze.stage:
        rows = rows.filter(pk__in=_stages(Value(freeze.stage)).values("service"))
    return rows.exists()


def _stages(named: OuterRef | Value) -> QuerySet[EnvironmentStage]:
    """Return the stages that a freeze names."""
    rows = EnvironmentStage.objects.annotate(path=Concat("graph__name", Value("/"), "name"))
    return rows.filter(Q(name=named) | Q(path=named))


def freeze_holding(release: Release) -> ActiveFreeze | None:
    """Return the freeze that keeps the release where it is.

    None: none does. Rollbacks are held by none; what a person let go on, by those that were made later.
    """
    if release.undoes_id is not None or not getattr(release, "has_freezes", True):
        return None
    return freeze_of(release.service, made_after=release.freeze_overridden_at)


def in_words(held: ActiveFreeze) -> str:
    """Say what freezes, why, and until when."""
    names = {"name": held.freeze.name, "until": formats.absolute(held.until) if held.until else ""}
    if held.until:
        said = _("Releases are frozen until %(until)s by the freeze %(name)s.") % names
    else:
        said = _("Releases are frozen by the freeze %(name)s, until a person ends it.") % names
    reason = held.freeze.reason
    if reason and not reason.endswith((".", "!", "?", "。", "！", "？")):
        reason += "."
    return joined((said, reason))
