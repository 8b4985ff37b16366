"""The page of a pool's cards: who holds each, how it is divided, and the form that divides one."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from capacity import selectors, services
from capacity.forms import CardLayoutForm
from capacity.models import CardLayout
from capacity.needs import needs_of
from capacity.states import PoolKind
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def cards_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    pool = selectors.pool_of(actor, pk)
    if pool.kind == PoolKind.SERVING:
        raise Http404
    form = CardLayoutForm(request.POST if request.method == "POST" else None)
    row: CardLayout | None = None
    if form.is_bound and form.is_valid():
        is_dry = request.POST.get("do") != "apply"
        try:
            row = services.set_layout(pool, actor=actor, dry_run=is_dry, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            if not is_dry:
                return done(request, f"{row}: {row.get_state_display()}", to=request.path)
    context = {
        "pool": pool,
        "cards": selectors.cards_of(pool),
        "layouts": selectors.layouts(pool),
        "form": form,
        "row": row,
        "needs": needs_of(pool, actor),
        "may_apply": may(actor, Right.CAPACITY_APPLY, pool.team),
    }
    status = UNPROCESSABLE if form.is_bound and row is None else 200
    return page(request, "capacity/cards.html", context, parts=("cards",), status=status)


@require_POST
@signed_in
@refusals_at_the_form
def undo_layout(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    visible = selectors.pools(actor)
    row = get_object_or_404(
        CardLayout.objects.select_related("pool__team", "pool__cluster"), pk=pk, pool__in=visible
    )
    made = services.undo_layout(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("%(row)s is undone.") % {"row": row}, to=f"/capacity/{made.pool_id}/cards/")
