"""The indicators of a service that others than its workers count, and the form that defines one."""

from typing import Any

from django import forms
from django.db.models import Count, Max, Q
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
from releases.forms.policy import reason_field
from releases.models import Service, ServiceIndicator
from releases.services.indicators import define_indicator, remove_indicator
from releases.states import IndicatorSource
from releases.views.services import visible_service


class IndicatorForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Plans judge it by this name, under judge.indicators."),
        widget=forms.TextInput(attrs=PLAIN),
    )
    source = forms.ChoiceField(label=gettext_lazy("Source"), choices=IndicatorSource.choices)
    description = forms.CharField(
        label=gettext_lazy("Description"),
        help_text=gettext_lazy("The meaning of a bad event."),
        max_length=200,
        required=False,
    )
    all_query = forms.CharField(
        label=gettext_lazy("Query of all events"),
        help_text=gettext_lazy(
            'Counters in PromQL, with $version or $deployment: shop_orders_total{release="$version"}'
        ),
        required=False,
        widget=forms.TextInput(attrs=PLAIN),
    )
    bad_query = forms.CharField(
        label=gettext_lazy("Query of bad events"),
        help_text=gettext_lazy("Counters of those that are bad. No series is no zero: add `or vector(0)`."),
        required=False,
        widget=forms.TextInput(attrs=PLAIN),
    )
    url = forms.CharField(
        label=gettext_lazy("Prometheus"),
        help_text=gettext_lazy("Its address; empty: the one that the cluster's gateway counts by."),
        required=False,
        widget=forms.TextInput(attrs=PLAIN),
    )
    reason = reason_field(gettext_lazy("Recorded in the audit log."))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def indicators_page(request: HttpRequest, name: str) -> HttpResponse:
    """`POST` defines one, or changes it."""
    actor = of_request(request)
    service = visible_service(actor, name)
    form = IndicatorForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        given: dict[str, Any] = dict(form.cleaned_data)
        try:
            define_indicator(service, actor=actor, **given)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("%(name)s is an indicator of the service.") % given, to=request.path)
    return _answer(request, service, form, actor)


@require_POST
@signed_in
@refusals_at_the_form
def remove(request: HttpRequest, name: str, indicator: str) -> HttpResponse:
    actor = of_request(request)
    service = visible_service(actor, name)
    remove_indicator(service, actor=actor, name=indicator, reason=reason_of(request, is_demanded=False))
    told = _("%(name)s is removed.") % {"name": indicator}
    return done(request, told, to=f"/services/{service.name}/indicators/")


def _answer(request: HttpRequest, service: Service, form: IndicatorForm, actor: Actor) -> HttpResponse:
    rows = ServiceIndicator.objects.filter(service=service).annotate(
        stretches=Count("counts"),
        judged=Count("counts", filter=Q(counts__judged_in__isnull=False)),
        latest=Max("counts__at"),
    )
    context = {
        "service": service,
        "form": form,
        "indicators": rows,
        "may_define": may(actor, Right.SERVICES_WRITE, service.team, service=service.name),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "releases/indicators.html", context, status=status)
