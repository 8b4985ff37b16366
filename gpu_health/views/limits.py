"""The page of limits and windows: what each does, what it comes to, and whom it holds now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.actors import of_request
from accounts.selectors import may_everywhere
from accounts.states import Right
from clusters.models import Cluster
from common.actor import Actor
from common.errors import Invalid, Missing, SlipwayError
from common.pages import formats
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from common.pages.forms import blame
from gpu_health import selectors
from gpu_health.healing.limits import HealingLimits
from gpu_health.incident_facts import policy
from gpu_health.limits_form import DAYS, SECTIONS, LimitsForm, Section, length_text
from gpu_health.models import HealingPolicy
from gpu_health.pools import groups_of
from gpu_health.services.healing import change_policy
from gpu_health.states import ENDED_INCIDENTS

PAGE = "/gpu-health/limits/"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The numbers that the shares come to in a pool."""

    name: str
    machines: int
    slots: int
    out_of_service: int
    repairs: int
    breaker_at: int


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def limits_page(request: HttpRequest) -> HttpResponse:
    """POST with `review` shows what would change; with `save` and a reason it is changed."""
    actor = of_request(request)
    held = policy()
    clusters = list(Cluster.objects.for_actor(actor).order_by("name"))
    names = [one.name for one in clusters]
    form = shown = LimitsForm(None, policy=held, clusters=names)
    if request.method == "POST":
        section = or_404(_section, request.POST.get("section", ""))
        form = LimitsForm(request.POST, policy=held, clusters=names, section=section)
    changes: Sequence[tuple[str, str, str]] | None = None
    proposed = held.figures
    if form.is_bound and form.is_valid():
        given = form.given
        try:
            proposed = HealingLimits.of(given.get("limits", held.limits))
            changes = differences(held, given)
            if "save" in request.POST:
                if not form.cleaned_data["reason"]:
                    raise Invalid(fields={"reason": [_("Say why; it is recorded in the audit log.")]})
                change_policy(
                    actor=actor,
                    given=given,
                    reason=form.cleaned_data["reason"],
                    expected=form.cleaned_data["revision"],
                    are_approvals_asked="approved_actions" in form.fields,
                )
                return done(request, _("The limits are changed."), to=PAGE)
        except SlipwayError as error:
            blame(form, error)
    context = {
        "form": form,
        "sections": [
            (one, form if form.section is one else shown, (form if form.section is one else shown).shown(one))
            for one in SECTIONS
        ],
        "changes": changes,
        "pools": [one for cluster in clusters for one in pool_limits(cluster, proposed)],
        "refusals": refusals(actor),
        "policy": held,
        "may_change": may_everywhere(actor, Right.FLEET_OPERATE),
    }
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    return page(request, "gpu_health/limits.html", context, status=status)


def _section(key: str) -> Section:
    found = next((one for one in SECTIONS if one.key == key), None)
    if found is None:
        raise Missing(_("There are no such limits."))
    return found


def pool_limits(cluster: Cluster, limits: HealingLimits) -> list[PoolLimits]:
    return [
        PoolLimits(
            name,
            len(members),
            limits.slots(len(members)),
            limits.out_of_service(len(members)),
            limits.repairs(len(members)),
            limits.breaker_at(len(members)),
        )
        for name, members in sorted(groups_of(cluster.pk).pools.items())
    ]


def refusals(actor: Actor) -> list[dict[str, Any]]:
    """Guards that hold incidents now, with the words of one of them."""
    rows = selectors.incidents(actor).exclude(state__in=ENDED_INCIDENTS).exclude(hold="")
    found = rows.order_by().values("hold").annotate(count=Count("pk"), newest=Max("pk")).order_by("-count")
    words = dict(rows.filter(pk__in=[one["newest"] for one in found]).values_list("pk", "hold_reason"))
    return [
        {
            "guard": one["hold"].replace("_", " "),
            "count": one["count"],
            "words": words.get(one["newest"], ""),
            "incident": one["newest"],
        }
        for one in found
    ]


def differences(held: HealingPolicy, given: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value now and value then, of what would change."""
    now: dict[str, Any] = {
        "mode": held.mode,
        "two_people": held.needs_two_people,
        "dry_clusters": sorted(held.dry_clusters),
        "windows": _windows(held.windows),
        **held.figures.to_dict(),
    }
    then: dict[str, Any] = {
        "mode": given.get("mode", held.mode),
        "two_people": given.get("two_people", held.needs_two_people),
        "dry_clusters": sorted(given.get("dry_clusters", held.dry_clusters)),
        "windows": _windows(given.get("windows", held.windows)),
        **(HealingLimits.of(given["limits"]) if "limits" in given else held.figures).to_dict(),
    }
    for one in (now, then):
        one["approved_actions"] = sorted(one["approved_actions"])
    return [
        (name.replace("_", " "), _words(name, now[name]), _words(name, then[name]))
        for name in then
        if now[name] != then[name]
    ]


def _windows(windows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        " ".join(
            [
                f"{one['start']}-{one['end']}",
                str(one.get("time_zone", "UTC")),
                ",".join(str(DAYS[day][1]) for day in one.get("days", range(7))),
            ]
        )
        for one in windows
    ]


def _words(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, Mapping):
        told = [f"{key} {length_text(one)}" for key, one in value.items()]
    elif isinstance(value, list | tuple):
        told = [str(one) for one in value]
    elif isinstance(value, float) and "seconds" in name:
        told = [length_text(value)]
    elif isinstance(value, float):
        told = [f"{value:g} %"]
    else:
        told = [str(value)]
    return ", ".join(told) or formats.NO_VALUE
