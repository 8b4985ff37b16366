"""The list of releases, a release, and what people do with it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from allauth.account.authentication import get_authentication_records
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from accounts.actors import of_request
from common.actor import Actor
from common.audit import MAX_REASON
from common.languages import Text
from common.pages.access import signed_in
from common.pages.answers import done, is_part_request, page, refusals_at_the_form, refused
from common.pages.listing import list_page
from freezes.selectors import stops_for
from releases.approving import fresh_sign_in_asked
from releases.filters import ReleaseFilter
from releases.models import Release, ReleaseStep
from releases.pages.release import ReleasePage
from releases.selectors.releases import releases_for
from releases.services.approval import approve, reject
from releases.services.freezing import override_freeze
from releases.services.release import abort, end_bake, pause, resume, rollback
from releases.services.threshold import accept_threshold

SORTS = {
    "created": "created_at",
    "service": "service__name",
    "version": "version__number",
    "state": "state",
    "ended": "ended_at",
}


def rows_for_lists(rows: QuerySet[Release]) -> QuerySet[Release]:
    """Leave out what only the release's own page shows, but not the step it stands at."""
    steps = ReleaseStep.objects.filter(release=OuterRef("pk"))
    counted = steps.order_by().values("release").annotate(number=Count("pk")).values("number")
    heavy = ("plan", "evidence", "baseline", "progress", "version__config", "version__scan")
    return rows.defer(*heavy, "from_version__config", "from_version__scan").annotate(
        step_count=Subquery(counted),
        step_kind=Subquery(steps.filter(index=OuterRef("step_index")).values("kind")[:1]),
        step_title=Subquery(steps.filter(index=OuterRef("step_index")).values("title")[:1]),
    )


@require_safe
@signed_in
def release_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request,
        rows_for_lists(releases_for(actor)),
        sorts=SORTS,
        default_sort="-created",
        filters=ReleaseFilter,
    )
    context = {"listing": listing, "stops": stops_for(of_request(request))}
    return page(request, "releases/list.html", context, parts=("listing",))


@require_safe
@signed_in
def release_page(request: HttpRequest, pk: int) -> HttpResponse:
    shown = ReleasePage(_release(of_request(request), pk), of_request(request))
    # A part brings all that moves with it, so that one request keeps the whole page true.
    context = {"release": shown.release, "shown": shown, "refreshes": is_part_request(request)}
    if shown.count and shown.decisions:
        asked = fresh_sign_in_asked(shown.count.rules.policy, signed_in_at(request))
        context |= {"sign_in_asked": asked}
    return page(request, "releases/release.html", context, parts=("now",))


Wish = Callable[..., Any]
WISHES: dict[str, tuple[Wish, Text, bool]] = {
    "approve": (approve, gettext_lazy("Approved: release {pk} continues."), True),
    "reject": (reject, gettext_lazy("Rejected: all traffic returns to stable."), True),
    "pause": (pause, gettext_lazy("Release {pk} pauses."), False),
    "resume": (resume, gettext_lazy("Release {pk} continues."), False),
    "abort": (abort, gettext_lazy("Aborted: all traffic returns to stable."), True),
    "slow-threshold": (
        accept_threshold,
        gettext_lazy("The next release calls slower than that slow."),
        True,
    ),
    "end-bake": (end_bake, gettext_lazy("The workers that were kept warm stop."), False),
    "override": (override_freeze, gettext_lazy("Release {pk} continues in spite of the freeze."), True),
    "rollback": (rollback, gettext_lazy("Rolling back."), True),
}
"""What is asked for, what the person is told, and whether a reason is needed."""


@require_POST
@signed_in
@refusals_at_the_form
def act(request: HttpRequest, pk: int, wish: str) -> HttpResponse:
    if wish not in WISHES:
        raise Http404
    service, words, needs_reason = WISHES[wish]
    actor = of_request(request)
    release = _release(actor, pk)
    reason = request.POST.get("reason", "").strip()
    if needs_reason and not reason:
        return refused(request, _("Say why."), advice=_("The reason is kept in the audit record."))
    if len(reason) > MAX_REASON:
        return refused(
            request,
            _("The reason is longer than %(MAX_REASON)s characters.") % {"MAX_REASON": f"{MAX_REASON:,}"},
        )
    more = {"signed_in_at": signed_in_at(request)} if wish == "approve" else {}
    answer = service(release, actor=actor, reason=reason, **more)
    other = answer.pk if wish == "rollback" and answer.pk != pk else None
    told = words.format(pk=pk)
    if wish == "approve" and (count := ReleasePage(_release(actor, pk), actor).count) and count.missing:
        told = ngettext(
            "Approved: %(people)s more person must approve.",
            "Approved: %(people)s more people must approve.",
            count.missing,
        ) % {"people": count.missing}
    return done(request, told, to=f"/releases/{other}/" if other else None)


def signed_in_at(request: HttpRequest) -> datetime | None:
    """Return the last sign-in of this session; None: not known."""
    times = [one["at"] for one in get_authentication_records(request, request.user) if "at" in one]
    return datetime.fromtimestamp(max(times), UTC) if times else None


def _release(actor: Actor, pk: int) -> Release:
    found = releases_for(actor).filter(pk=pk).first()
    if found is None:
        raise Http404(_("There is no such release, or you may not see it."))
    return found
