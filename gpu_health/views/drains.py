"""The page of how incidents drain machines."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.actors import of_request
from accounts.selectors import may_everywhere
from accounts.states import Right
from clusters.draining.options import DrainOptions
from clusters.forms import DrainOptionsForm
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from common.pages.forms import blame
from gpu_health.incident_facts import policy
from gpu_health.services.draining import USUAL
from gpu_health.services.healing import change_policy

PAGE = "/gpu-health/drains/"


class HealingDrainForm(DrainOptionsForm):
    revision = forms.IntegerField(widget=forms.HiddenInput)
    # What a change of settings asks last.
    field_order = (*(name for name in DrainOptionsForm.base_fields if name != "reason"), "reason")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def drains_page(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    held = policy()
    now = DrainOptions.read({**USUAL, **held.drain})
    form = HealingDrainForm(
        request.POST if request.method == "POST" else None,
        initial={**DrainOptionsForm.initial_of(now), "revision": held.revision},
    )
    if form.is_bound and form.is_valid():
        try:
            change_policy(
                actor=actor,
                given={"drain": differing(form.options())},
                reason=form.cleaned_data["reason"],
                expected=form.cleaned_data["revision"],
            )
        except SlipwayError as error:
            blame(form, error, {f"drain.{name}": name for name in form.fields})
        else:
            return done(request, _("Drains of incidents are changed."), to=PAGE)
    context = {"form": form, "may_change": may_everywhere(actor, Right.FLEET_OPERATE)}
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "gpu_health/drains.html", context, status=status)


def differing(options: DrainOptions) -> dict[str, Any]:
    """Return the options that differ from a usual drain of an incident. `gpu_pods_only` is left out: the
    rule decides it.
    """
    usual = DrainOptions.read(USUAL).document()
    own = options.document()
    return {name: own[name] for name in own if own[name] != usual[name] and name != "gpu_pods_only"}
