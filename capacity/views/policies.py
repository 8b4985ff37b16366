"""The page of a service's policy: what is in force, a replay of another, and the switch to it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from capacity import selectors, services
from capacity.charts import replay_chart
from capacity.forms import ScalingPolicyForm
from capacity.models import active_law
from capacity.observing import stable_target
from capacity.planning.policies import law_with
from capacity.replays import PolicyReplay, replay_policy
from capacity.switch_times import is_measured, switch_time, times_of
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from common.pages.forms import blame


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def policy_page(request: HttpRequest, pk: int, service: str) -> HttpResponse:
    actor = of_request(request)
    pool = selectors.pool_of(actor, pk)
    member = get_object_or_404(pool.memberships.all(), service=service)
    member.pool = pool
    form = ScalingPolicyForm(request.POST if request.method == "POST" else None, initial=active_law(member))
    replay: PolicyReplay | None = None
    status = UNPROCESSABLE if form.is_bound else 200
    if form.is_bound and form.is_valid():
        hours, reason = form.cleaned_data.pop("hours"), form.cleaned_data.pop("reason")
        law = {name: value for name, value in form.cleaned_data.items() if value is not None}
        try:
            if request.POST.get("do") == "switch":
                row = services.set_policy(member, actor=actor, law=law, reason=reason)
                return done(request, _("Policy %(row)s is in force.") % {"row": row}, to=request.path)
            replay, status = replay_policy(member, law, hours=hours or 24), 200
        except SlipwayError as error:
            blame(form, error)
    target = stable_target(service)
    context = {
        "pool": pool,
        "member": member,
        "form": form,
        "law": law_with(switch_time(member, target), active_law(member)),
        "switch_seconds": switch_time(member, target),
        "switch_times": times_of(target),
        "is_measured": is_measured(member, target),
        "policies": selectors.policies(member),
        "replay": replay,
        "chart": replay_chart(replay) if replay else None,
        "may_write": may(actor, Right.CAPACITY_WRITE, pool.team),
    }
    return page(request, "capacity/policy.html", context, status=status)
