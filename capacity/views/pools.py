"""Pages of capacity: pools with what their services have and need, plans, the kill switch."""

from typing import Any

from django.forms import Form, model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, teams_where
from accounts.states import Right
from capacity import selectors, services
from capacity.decisions import is_as_made
from capacity.forms import (
    CardPoolSettings,
    DefragmentForm,
    NewPool,
    PoolMemberForm,
    PoolSettings,
    ServiceGroupsForm,
    ServiceQueueForm,
    WholeMachineMemberForm,
    WholeMachineSettings,
)
from capacity.fragmentation import SIZES
from capacity.models import CapacityPlan, CapacityStop, Pool, ServiceGroups, ServiceQueue
from capacity.states import ENDED, Granularity, PoolKind
from clusters.models import Cluster
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of

PATH = "/capacity/"
DEEDS = {"apply": services.apply_plan, "reject": services.reject_plan, "undo": services.undo_plan}
LATEST = 10
MOST_SHOWN = 50


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    context = {
        "pools": selectors.pools_now(actor, selectors.pools(actor)),
        "plans": selectors.plans(actor)[:LATEST],
        "stop": CapacityStop.now(),
        "may_add": may(actor, Right.CAPACITY_WRITE),
        "may_stop": may(actor, Right.CAPACITY_APPLY),
    }
    return page(request, "capacity/overview.html", context, parts=("pools",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_pool(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    form = NewPool(request.POST if request.method == "POST" else None)
    form.fields["team"].queryset = teams_where(actor, Right.CAPACITY_WRITE)  # type: ignore[attr-defined]
    form.fields["cluster"].queryset = Cluster.objects.for_actor(actor, Right.READ)  # type: ignore[attr-defined]
    if form.is_bound and form.is_valid():
        try:
            row = services.create_pool(actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("%(row)s was created.") % {"row": row}, to=f"{PATH}{row.pk}/")
    context = {"form": form, "may_add": may(actor, Right.CAPACITY_WRITE)}
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "capacity/new_pool.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def pool_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The pool, and the forms that change it: its settings, a service, the groups of a service."""
    actor = of_request(request)
    pool = selectors.pool_of(actor, pk)
    sent = request.POST.get("form") if request.method == "POST" else None
    fields: type[Form] = PoolSettings if pool.kind == PoolKind.SERVING else CardPoolSettings
    if pool.kind == PoolKind.SERVING and pool.granularity == Granularity.MACHINE:
        fields = WholeMachineSettings
    settings = fields(request.POST if sent == "settings" else None, initial=model_to_dict(pool))
    services_there = list(selectors.services_for(actor, pool))
    share: type[PoolMemberForm] = PoolMemberForm
    if fields is WholeMachineSettings:
        share = WholeMachineMemberForm
    memberships = list(pool.memberships.all())
    members = [one.service for one in memberships]
    outside = [name for name in services_there if name not in members]
    share_now = {"service": outside[0]} if outside else model_to_dict(memberships[0]) if memberships else {}
    member = share(request.POST if sent == "member" else None, services=services_there, initial=share_now)
    groups = ServiceGroupsForm(
        request.POST if sent == "groups" else None,
        services=members,
        initial=next((model_to_dict(one) for one in selectors.groups(actor).filter(member__pool=pool)), {}),
    )
    queue = ServiceQueueForm(
        request.POST if sent == "queue" else None,
        services=members,
        initial=_queue_of(selectors.queues(actor).filter(member__pool=pool).first()),
    )
    forms: dict[str | None, Form] = {"settings": settings, "groups": groups, "queue": queue}
    form = forms.get(sent, member)
    if sent and form.is_valid():
        try:
            _save(sent, pool, actor, form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("%(row)s was changed.") % {"row": pool}, to=f"{PATH}{pk}/")
    context = {
        "now": selectors.pools_now(actor, [pool])[0],
        "settings": settings,
        "member": member,
        "groups": groups,
        "queue": queue,
        "switches": selectors.switches(pool),
        "plans": pool.plans.all()[:LATEST],
        "workloads": pool.workloads.exclude(state__in=ENDED).order_by("-priority", "pk")[:MOST_SHOWN],
        "stop": CapacityStop.now(),
    }
    status = UNPROCESSABLE if sent else 200
    return page(request, "capacity/pool.html", context, parts=("pool",), status=status)


def _queue_of(row: ServiceQueue | None) -> dict[str, Any]:
    return {} if row is None else {"service": row.member.service, **model_to_dict(row)}


def _save(sent: str, pool: Pool, actor: Actor, given: dict[str, Any]) -> None:
    if sent == "settings":
        services.change_pool(pool, actor=actor, **given)
    elif sent == "groups":
        member = pool.memberships.get(service=given.pop("service"))
        services.set_groups(member, actor=actor, **given)
    elif sent == "queue":
        member = pool.memberships.get(service=given.pop("service"))
        services.set_queue(member, actor=actor, **given)
    else:
        services.set_membership(pool, actor=actor, **given)


@require_POST
@signed_in
@refusals_at_the_form
def remove_groups(request: HttpRequest, pk: int, service: str) -> HttpResponse:
    actor = of_request(request)
    pool = selectors.pool_of(actor, pk)
    row = get_object_or_404(ServiceGroups, member__pool=pool, member__service=service)
    services.remove_groups(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("%(row)s were removed.") % {"row": row}, to=f"{PATH}{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def remove_queue(request: HttpRequest, pk: int, service: str) -> HttpResponse:
    actor = of_request(request)
    pool = selectors.pool_of(actor, pk)
    row = get_object_or_404(ServiceQueue, member__pool=pool, member__service=service)
    services.remove_queue(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("%(row)s was removed.") % {"row": row}, to=f"{PATH}{pk}/")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def fragments_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Scattered cards of a pool: jobs that could start, and the dry run of moves; sent, it is proposed."""
    actor = of_request(request)
    pool = selectors.pool_of(actor, pk)
    if pool.kind == PoolKind.SERVING:
        raise Http404
    given = request.POST if request.method == "POST" else (request.GET if "cards" in request.GET else None)
    form, plan = DefragmentForm(given), None
    if form.is_bound and form.is_valid():
        try:
            is_dry = request.method != "POST"
            plan = services.propose_defragmentation(pool, actor=actor, dry_run=is_dry, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            if not is_dry:
                return done(request, _("%(row)s was proposed.") % {"row": plan}, to=f"{PATH}plans/{plan.pk}/")
    context = {
        "pool": pool,
        "racks": selectors.fragments_now(pool),
        "chart": selectors.startable_over_time(pool),
        "sizes": SIZES,
        "form": form,
        "plan": plan,
        "may_write": may(actor, Right.CAPACITY_WRITE, pool.team),
    }
    status = UNPROCESSABLE if form.is_bound and plan is None else 200
    return page(request, "capacity/fragments.html", context, parts=("fragments",), status=status)


@require_POST
@signed_in
@refusals_at_the_form
def remove_pool(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    services.remove_pool(
        selectors.pool_of(actor, pk), actor=actor, reason=reason_of(request, is_demanded=False)
    )
    return done(request, _("The pool was removed."), to=PATH)


@require_POST
@signed_in
@refusals_at_the_form
def remove_member(request: HttpRequest, pk: int, service: str) -> HttpResponse:
    actor = of_request(request)
    row = get_object_or_404(selectors.pool_of(actor, pk).memberships, service=service)
    services.remove_membership(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("%(row)s left the pool.") % {"row": service}, to=f"{PATH}{pk}/")


@require_safe
@signed_in
def plan_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    plan = get_object_or_404(selectors.plans(actor), pk=pk)
    context = {
        "plan": plan,
        "is_as_made": is_as_made(plan),
        "may_apply": may(actor, Right.CAPACITY_APPLY, plan.pool.team),
        "undone_by": CapacityPlan.objects.filter(undoes=plan).first(),
        "stop": CapacityStop.now(),
    }
    return page(request, "capacity/plan.html", context, parts=("plan",))


@require_POST
@signed_in
@refusals_at_the_form
def decide(request: HttpRequest, pk: int, deed: str) -> HttpResponse:
    actor = of_request(request)
    plan = get_object_or_404(selectors.plans(actor), pk=pk)
    if deed not in DEEDS:
        raise Http404
    row = DEEDS[deed](plan, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, f"{row}: {row.get_state_display()}", to=f"{PATH}plans/{row.pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def switch(request: HttpRequest, deed: str) -> HttpResponse:
    actor = of_request(request)
    if deed == "stop":
        services.stop(actor=actor, reason=reason_of(request, is_demanded=False))
        return done(request, _("No plan goes on."), to=PATH)
    services.resume(actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("Plans may begin again."), to=PATH)
