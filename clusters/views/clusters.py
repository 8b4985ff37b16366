"""A cluster's own page, and the doors to its host and to the agents of its machines."""

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may_for_owner
from accounts.services.tokens import LONGEST
from accounts.states import Right
from clusters import agent_contacts, selectors
from clusters.agents import is_silent
from clusters.backends.checks import RIGHT
from clusters.backends.kinds import abilities_of
from clusters.capacities import capacity
from clusters.models import Cluster, Deployment
from clusters.panels import cluster_panels
from clusters.report_tokens import has_relay
from clusters.services.clusters import move_cluster
from clusters.services.node_agents import TOKEN_LIFE, issue_node_token, remove_node_agent
from clusters.states import CheckResult, DeploymentState
from clusters.uses import cluster_uses
from clusters.views.fleet import visible_node
from common import clock
from common.actor import Actor
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.hosts import this_host
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.reconcile.pulses import living_hosts
from common.sentences import listed

WORST_FIRST = (CheckResult.FAILED, CheckResult.WARNING, CheckResult.PASSED)


class HostForm(forms.Form):
    host = forms.ChoiceField(
        label=gettext_lazy("Host"), help_text=gettext_lazy("Those of which a worker or sweeper lives.")
    )

    def __init__(self, *args: Any, cluster: Cluster, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["host"]
        field.choices = [(host, host) for host in sorted(living_hosts() - {cluster.host})]


class AgentTokenForm(forms.Form):
    days = forms.IntegerField(
        label=gettext_lazy("Expires in (days)"), min_value=1, max_value=LONGEST.days, initial=TOKEN_LIFE.days
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Recorded in the audit log."),
        max_length=MAX_REASON,
        required=False,
    )


@require_safe
@signed_in
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """Show a cluster: its settings, its state and its machines."""
    actor = of_request(request)
    row = visible_cluster(actor, name)
    fleet = selectors.fleet(actor)
    on_a_host = abilities_of(row.kind).runs_on_host
    form = HostForm(cluster=row) if on_a_host else None
    living = Deployment.objects.filter(cluster=row).exclude(state=DeploymentState.REMOVED)
    ranked = sorted(row.checks, key=lambda one: WORST_FIRST.index(one["result"]))
    granted = [one for one in ranked if one["name"].startswith(RIGHT) and one["result"] == CheckResult.PASSED]
    context = {
        "fleet": fleet,
        "row": row,
        "now": next((one for one in fleet.clusters if one.row.pk == row.pk), None),
        "deployments": living.count(),
        "runs_on_a_host": on_a_host,
        "is_alive": row.host in living_hosts(),
        "form": form,
        "other_hosts": bool(form and form.fields["host"].choices),  # type: ignore[attr-defined]
        "checks": [one for one in ranked if one not in granted],
        "granted": granted,
        "capacity": capacity(row),
        "has_relay": has_relay(row.kind, row.settings),
        "relay_silent": is_silent(row.relay_silent_since, now=clock.now()),
        "uses": cluster_uses(row),
        "panels": cluster_panels(row),
        "settings": [
            (name, listed(value) if isinstance(value, list) else value)
            for name, value in row.settings.items()
        ],
        "may_operate": may_for_owner(actor, Right.FLEET_OPERATE, row.team),
    }
    return page(request, "clusters/cluster.html", context, parts=("now",))


@require_POST
@signed_in
@refusals_at_the_form
def move(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    row = visible_cluster(actor, name)
    host = request.POST.get("host", "")
    move_cluster(actor=actor, cluster=row, host=host, reason=reason_of(request))
    words = _("%(cluster)s is given to %(host)s: workers and gateway start there.")
    return done(request, words % {"cluster": name, "host": host}, to=f"/fleet/clusters/{name}/")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def agent_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Its answer is the one place where the token is shown: it is neither stored nor sent again."""
    actor = of_request(request)
    node = visible_node(actor, pk)
    form = AgentTokenForm(request.POST if request.method == "POST" else None)
    context = {"row": node, "form": form, "is_replaced": agent_contacts.agent_token(node) is not None}
    if form.is_bound and form.is_valid():
        try:
            issued = issue_node_token(
                actor=actor,
                cluster=node.cluster,
                node_uid=node.uid,
                node_name=node.name,
                lives=timedelta(days=form.cleaned_data["days"]),
                reason=form.cleaned_data["reason"],
            )
        except SlipwayError as error:
            blame(form, error)
        else:
            context |= {
                "token": issued.token,
                "secret": issued.text,
                # Of another home nobody here knows where it is.
                "file": settings.SLIPWAY_NODE_TOKEN_FILE if node.cluster.host == this_host() else "",
            }
            answer = page(request, "clusters/agent_token_issued.html", context, status=201)
            answer["Cache-Control"] = "no-store"
            return answer
    return page(request, "clusters/agent_token.html", context, status=UNPROCESSABLE if form.is_bound else 200)


@require_POST
@signed_in
@refusals_at_the_form
def remove_agent(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    node = visible_node(actor, pk)
    remove_node_agent(actor=actor, node=node, reason=reason_of(request))
    words = _("The agent of %(node)s is removed: its token no longer works.") % {"node": node.name}
    return done(request, words, to=f"/fleet/nodes/{pk}/")


def visible_cluster(actor: Actor, name: str) -> Cluster:
    row = Cluster.objects.for_actor(actor).select_related("team").filter(name=name).first()
    if row is None:
        raise Http404(_("There is no cluster %(name)s, or you may not see it.") % {"name": name})
    return row
