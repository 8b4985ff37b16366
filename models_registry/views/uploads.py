"""Uploads to a model."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from accounts.actors import of_request
from common.pages.access import or_404, signed_in
from common.pages.answers import done, refusals_at_the_form
from common.pages.forms import reason_of
from models_registry.selectors import uploads
from models_registry.services import uploads as upload_services
from models_registry.views.models import url_of, visible_model


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    upload = or_404(uploads.upload_of, model, pk)
    upload_services.cancel_upload(actor=actor, upload=upload, reason=reason_of(request, is_demanded=False))
    return done(request, _("The %(upload)s is cancelled.") % {"upload": upload}, to=url_of(model))
