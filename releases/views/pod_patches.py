"""Patches of the pod template of a service: proposed, reviewed, and those that were."""

import json
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from clusters.backends.kinds import abilities_of
from common.audit import MAX_REASON
from common.errors import Invalid, SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from releases.forms.policy import reason_field
from releases.models import PodPatch, Service
from releases.pages.engine_fields import JsonObjectField
from releases.services.pod_patch import (
    approve_patch,
    approved_patch,
    patch_of,
    propose_patch,
    reject_patch,
    withdraw_patch,
)
from releases.states import PatchState
from releases.views.services import visible_service

DECISIONS = {
    "approve": (approve_patch, gettext_lazy("Approved: the next release deploys it.")),
    "reject": (reject_patch, gettext_lazy("Rejected.")),
    "withdraw": (withdraw_patch, gettext_lazy("Withdrawn.")),
}


class PatchForm(forms.Form):
    patch = JsonObjectField(
        required=False,
        label=gettext_lazy("Patch"),
        help_text=gettext_lazy("Of metadata and spec of a pod, as JSON; empty: no patch any more."),
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false", "class": "mono"}),
    )
    reason = reason_field(gettext_lazy("Whoever approves reads this first."))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["reason"].required = True


class DecisionForm(forms.Form):
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=MAX_REASON)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def pods_page(request: HttpRequest, name: str) -> HttpResponse:
    """`POST` proposes a patch."""
    actor = of_request(request)
    service = visible_service(actor, name)
    given = request.POST if request.method == "POST" else None
    form = PatchForm(given, initial={"patch": approved_patch(service)})
    if form.is_bound and form.is_valid():
        try:
            propose_patch(service, actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            _blame(form, error)
        else:
            return done(request, _("The patch is proposed: somebody else approves it."), to=request.path)
    return _answer(request, service, form, status=UNPROCESSABLE if form.is_bound else 200)


@require_POST
@signed_in
def decide_patch(request: HttpRequest, name: str, pk: int, decision: str) -> HttpResponse:
    actor = of_request(request)
    service = visible_service(actor, name)
    decide, said = DECISIONS[decision]
    form = DecisionForm(request.POST)
    if not form.is_valid():
        shown = PatchForm(initial={"patch": approved_patch(service)})
        return _answer(request, service, shown, problem=_("Give a reason."), status=UNPROCESSABLE)
    try:
        decide(patch_of(service, pk), actor=actor, reason=form.cleaned_data["reason"])
    except SlipwayError as error:
        shown = PatchForm(initial={"patch": approved_patch(service)})
        return _answer(request, service, shown, problem=str(error), status=UNPROCESSABLE)
    return done(request, said, to=f"/services/{name}/pods/")


def _answer(
    request: HttpRequest, service: Service, form: PatchForm, *, problem: str = "", status: int
) -> HttpResponse:
    actor = of_request(request)
    rows = list(PodPatch.objects.filter(service=service)[:50])
    for row in rows:
        row.text = json.dumps(row.patch, indent=2)  # type: ignore[attr-defined]
    proposed = next((row for row in rows if row.state == PatchState.PROPOSED), None)
    context = {
        "service": service,
        "form": form,
        "problem": problem,
        "proposed": proposed,
        "present": next((row for row in rows if row.state == PatchState.APPROVED), None),
        "history": [row for row in rows if row.state not in (PatchState.PROPOSED, PatchState.APPROVED)],
        "has_pods": abilities_of(service.cluster.kind).has_pods,
        "may_propose": may(actor, Right.SERVICES_WRITE, service.team),
        "may_decide": may(actor, Right.RELEASES_APPROVE, service.team),
        "is_own": proposed is not None and proposed.proposed_by_id == actor.user_id,
    }
    return page(request, "releases/pods.html", context, status=status)


def _blame(form: PatchForm, error: SlipwayError) -> None:
    if not isinstance(error, Invalid) or not error.fields:
        form.add_error(None, str(error))
        return
    for place, sentences in error.fields.items():
        where = place.removeprefix("patch").removeprefix(".")
        for sentence in sentences:
            form.add_error("patch", f"{where}: {sentence}" if where else sentence)
