"""The LoRA adapters of a service: those that its workers have loaded, and the form that loads one."""

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import PLAIN, blame, reason_of
from models_registry.models import Version
from models_registry.selectors import versions
from releases.forms.policy import reason_field
from releases.models import Service
from releases.selectors.adapters import adapters_of, loadable_versions, why_no_adapters
from releases.services.adapters import load_adapter, unload_adapter
from releases.views.services import visible_service


class AdapterForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("What requests give as their model."),
        widget=forms.TextInput(attrs=PLAIN),
    )
    version = forms.CharField(
        label=gettext_lazy("Version"),
        help_text=gettext_lazy("MODEL:VERSION in the registry, with adapter_config.json and its weights."),
        widget=forms.TextInput(attrs={**PLAIN, "list": "versions"}),
    )
    reason = reason_field(gettext_lazy("Recorded in the audit log."))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def adapters_page(request: HttpRequest, name: str) -> HttpResponse:
    """`POST` loads one."""
    actor = of_request(request)
    service = visible_service(actor, name)
    form = AdapterForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        try:
            version = versions.resolve(actor, given["version"])
            load_adapter(service, actor=actor, name=given["name"], version=version, reason=given["reason"])
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("The workers are loading %(name)s.") % given, to=request.path)
    return _answer(request, service, form, actor)


@require_POST
@signed_in
@refusals_at_the_form
def unload(request: HttpRequest, name: str, adapter: str) -> HttpResponse:
    actor = of_request(request)
    service = visible_service(actor, name)
    unload_adapter(service, actor=actor, name=adapter, reason=reason_of(request, is_demanded=False))
    told = _("The workers are unloading %(name)s.") % {"name": adapter}
    return done(request, told, to=f"/services/{service.name}/adapters/")


def _answer(request: HttpRequest, service: Service, form: AdapterForm, actor: Actor) -> HttpResponse:
    offered: QuerySet[Version] = loadable_versions(actor)
    context = {
        "service": service,
        "form": form,
        "shown": adapters_of(service),
        "why_not": why_no_adapters(service),
        "may_load": may(actor, Right.RELEASES_START, service.team, service=service.name),
        "versions": [str(one) for one in offered],
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "releases/adapters.html", context, status=status, parts=("loaded",))
