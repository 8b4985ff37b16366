"""The page of files: what each set manages, and what people changed since."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import reason_of
from configuration.applying import drift_of
from configuration.models import AppliedDocument
from configuration.services import forget_document

PATH = "/settings/configuration/"
MOST = 200


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    rows = AppliedDocument.objects.for_actor(actor).select_related("team")[:MOST]
    listed = [
        {
            "row": row,
            "drift": drift_of(row, request),
            "may_forget": may(actor, Right.SERVICES_WRITE, row.team),
        }
        for row in rows
    ]
    return page(request, "configuration/overview.html", {"listed": listed, "most": MOST})


@require_POST
@signed_in
@refusals_at_the_form
def forget(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = get_object_or_404(AppliedDocument.objects.for_actor(actor), pk=pk)
    forget_document(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("%(name)s is managed by people again.") % {"name": row}, to=PATH)
