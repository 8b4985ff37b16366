"""Which versions carry code, and which of them a team lets be served all the same."""

from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.states import Right
from common.actor import Actor
from common.sentences import joined, listed
from models_registry.errors import CodeNotAllowed
from models_registry.models import CodeExemption, Model, Version
from trust.formats import recognised

_NAMED = 3


def code_of(version: Version) -> list[dict[str, str]]:
    """The files that carry or name code, as `[{"path", "reason"}]`.

    Versions from before code was listed could hold none; their config may name some.
    """
    scan: dict[str, Any] = version.scan
    if "code" in scan:
        return list(scan["code"])
    if version.config.get("auto_map"):
        return [{"path": "config.json", "reason": _("Its auto_map names code.")}]
    return []


def runnable_formats_of(version: Version) -> list[str]:
    """Return the version's formats that run code when they are loaded."""
    return sorted(recognised.FORMATS & version.scan.get("formats", {}).keys())


def exemption_of(version: Version, *, at: datetime | None = None) -> CodeExemption | None:
    """The one in force for all the code of the version that lasts longest."""
    rows = _in_force(version.model, at)
    if runnable_formats_of(version):
        rows = rows.filter(covers_runnable=True)
    return rows.order_by("-until").first()


def other_in_force(ended: CodeExemption) -> CodeExemption | None:
    """The one that exempts all the same what another one did, and lasts longest."""
    rows = CodeExemption.objects.in_force(timezone.now()).filter(team=ended.team_id).exclude(pk=ended.pk)
    if ended.covers_runnable:
        rows = rows.filter(covers_runnable=True)
    return rows.filter(Q(model=None) | Q(model=ended.model_id)).order_by("-until").first()


def admits_runnable(model: Model) -> bool:
    """Whether versions of the model may hold formats that run code, as they are made now."""
    return _in_force(model, None).filter(covers_runnable=True).exists()


def _in_force(model: Model, at: datetime | None) -> QuerySet[CodeExemption]:
    rows: QuerySet[CodeExemption] = CodeExemption.objects.in_force(at or timezone.now())
    return rows.filter(Q(model=None) | Q(model=model), team=model.team_id)


def check_code(version: Version, *, at: datetime | None = None) -> None:
    """Raises CodeNotAllowed for a version that carries code and has no exemption at that time, now."""
    code = code_of(version)
    if not code or exemption_of(version, at=at):
        return
    paths = [one["path"] for one in code]
    named = listed(paths[:_NAMED])
    if len(paths) > _NAMED:
        named = _("%(named)s and %(count)s more") % {"named": named, "count": len(paths) - _NAMED}
    carries = _("%(version)s carries code that loaders may run: %(named)s.")
    if runnable_formats_of(version):
        advice = _(
            "Import it again without, or ask an admin of team %(team)s to exempt its model, with formats "
            "that run code, for a while."
        )
    else:
        advice = _(
            "Import it again without, or ask an admin of team %(team)s to exempt its model for a while."
        )
    told = (carries % {"version": version, "named": named}, advice % {"team": version.model.team.name})
    raise CodeNotAllowed(joined(told))


def exemptions(actor: Actor, right: Right = Right.READ) -> QuerySet[CodeExemption]:
    """Return exemptions of the teams in which the actor has the right, ended ones too."""
    rows: QuerySet[CodeExemption] = CodeExemption.objects.for_actor(actor, right)
    return rows.select_related("team", "model")
