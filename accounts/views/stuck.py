"""What a person does about a row that is stuck, from whatever page shows it."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from accounts.actors import of_request
from accounts.forms import AnswerForm
from accounts.services import stuck as services
from common.pages.access import signed_in
from common.pages.answers import done, refusals_at_the_form
from common.pages.forms import filled, reason_of
from common.pages.subjects import title_of


@require_POST
@signed_in
@refusals_at_the_form
def retry(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = services.retry(actor=of_request(request), kind=kind, pk=pk, reason=reason_of(request))
    return done(request, _("%(title)s: retrying.") % {"title": title_of(row)}, tone="idle")


@require_POST
@signed_in
@refusals_at_the_form
def answer(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    given = filled(AnswerForm(request.POST)).cleaned_data
    row = services.answer(
        actor=of_request(request),
        kind=kind,
        pk=pk,
        op_key=given["op_key"],
        happened=given["happened"] == "yes",
        reason=reason_of(request),
    )
    return done(request, _("%(title)s: your answer is recorded.") % {"title": title_of(row)}, tone="idle")
