"""Uploads to a model."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from accounts.actors import of_request
from common.errors import Missing
from common.pages.access import signed_in
from common.pages.answers import done, refusals_at_the_form, refused
from common.pages.forms import ReasonForm, first_fault
from models_registry import selectors, services
from models_registry.views.models import url_of, visible_model


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    try:
        upload = selectors.upload_of(model, pk)
    except Missing as error:
        raise Http404(str(error)) from None
    form = ReasonForm(request.POST)
    form.fields["reason"].required = False
    if not form.is_valid():
        return refused(request, first_fault(form))
    services.cancel_upload(actor=actor, upload=upload, reason=form.cleaned_data["reason"])
    return done(request, f"The {upload} is cancelled.", to=url_of(model))
