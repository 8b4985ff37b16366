"""Figures that people record of a version."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.actors import of_request
from common.errors import Invalid
from common.pages.access import signed_in
from common.pages.answers import dialog_fields, done, refusals_at_the_form
from common.pages.forms import filled, reason_of
from models_registry.forms.evaluations import EvaluationForm
from models_registry.services import evaluations
from models_registry.views.models import visible_model
from models_registry.views.versions import visible_version


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
@refusals_at_the_form
def evaluate(request: HttpRequest, name: str, version: str) -> HttpResponse:
    """Asked for with GET: the fields of its dialog."""
    actor = of_request(request)
    row = visible_version(visible_model(actor, name), version)
    if request.method != "POST":
        return dialog_fields(request, EvaluationForm(auto_id="evaluation_%s"))
    figure = filled(EvaluationForm(request.POST)).measured()
    why = reason_of(request, is_demanded=False)
    told = evaluations.evaluate_version(actor=actor, version=row, figures=[figure], reason=why)
    if figure.value is None and not told:
        raise Invalid(
            _("There is no %(figure)s of %(row)s to remove. Give its value.")
            % {"figure": figure.name, "row": row}
        )
    said = _("%(figure)s of %(row)s is removed.")
    if figure.value is not None:
        said = _("%(figure)s of %(row)s is recorded.")
    return done(request, said % {"figure": figure.name, "row": row})
