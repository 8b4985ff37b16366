"""A machine's drain: first a look at what it would do, then its progress."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may_for_owner
from accounts.states import Right
from clusters.draining.options import DrainOptions
from clusters.forms import DrainForm
from clusters.models import Drain
from clusters.services.drains import cancel_drain, drain_node, preview_drain, remaining_for
from clusters.states import DRAINS
from clusters.views.fleet import visible_node
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def drain(request: HttpRequest, pk: int) -> HttpResponse:
    """Preview a drain with the chosen options; a POST orders it."""
    actor = of_request(request)
    node = visible_node(actor, pk)
    is_order = request.method == "POST"
    form = DrainForm(request.POST if is_order else request.GET or None)
    options, preview, problem = DrainOptions(), None, ""
    if form.is_bound and not is_order:
        form.fields["reason"].required = False
    if form.is_bound and form.is_valid():
        options = form.options()
    if is_order and form.is_valid():
        try:
            row = drain_node(actor=actor, node=node, reason=form.cleaned_data["reason"], options=options)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("%(node)s is being drained.") % {"node": node.name}, to=_url_of(row))
    try:
        preview = preview_drain(actor=actor, node=node, options=options)
    except SlipwayError as error:
        problem = str(error)
    may_drain = may_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    context = {"row": node, "form": form, "preview": preview, "problem": problem, "may_drain": may_drain}
    return page(request, "clusters/drain_node.html", context, status=UNPROCESSABLE if is_order else 200)


@require_safe
@signed_in
def drain_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = _visible(actor, pk)
    context = {
        "row": row,
        "remaining": remaining_for(row) if row.is_under_way else None,
        "may_cancel": row.state in DRAINS
        and may_for_owner(actor, Right.FLEET_OPERATE, row.node.cluster.team),
    }
    return page(request, "clusters/drain.html", context, parts=("now",))


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = _visible(actor, pk)
    cancel_drain(actor=actor, drain=row, reason=reason_of(request))
    return done(request, _("The drain is being cancelled."), to=_url_of(row))


def _visible(actor: Actor, pk: int) -> Drain:
    row = Drain.objects.for_actor(actor).select_related("node__cluster__team").filter(pk=pk).first()
    if row is None:
        raise Http404(_("There is no such drain, or you may not see it."))
    return row


def _url_of(row: Drain) -> str:
    return f"/fleet/drains/{row.pk}/"
