"""The page that sets a cluster's gateway."""

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.actors import of_request
from accounts.selectors import may_for_owner
from accounts.states import Right
from clusters.models import Cluster
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import reason_of
from gateway import selectors
from gateway.forms import GatewayForm
from gateway.services.client_keys import demand_key
from gateway.services.gateways import remove_gateway, set_gateway


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def gateway(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    cluster = _visible_cluster(actor, name)
    present = selectors.gateway_of(cluster)
    is_choosing = bool(request.POST.get("choosing"))
    bound = request.POST if request.method == "POST" and not is_choosing else None
    typed = request.POST.dict() if is_choosing else None
    form = GatewayForm(bound, cluster=cluster, present=present, typed=typed)
    if form.is_bound and form.is_valid():
        try:
            set_gateway(actor=actor, cluster=cluster, **form.wishes())
        except (SlipwayError, ValidationError) as error:
            form.blame(error)
        else:
            words = _("The gateway of %(cluster)s is set; its routes follow within seconds.")
            return done(request, words % {"cluster": name}, to=_url_of(cluster))
    context = {
        "cluster": cluster,
        "form": form,
        "present": present,
        "may_operate": may_for_owner(actor, Right.FLEET_OPERATE, cluster.team),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "gateway/gateway.html", context, parts=("fields",), status=status)


@require_POST
@signed_in
@refusals_at_the_form
def remove(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    cluster = _visible_cluster(actor, name)
    present = selectors.gateway_of(cluster)
    if present is None:
        raise Http404(_("%(cluster)s has no gateway.") % {"cluster": name})
    remove_gateway(present, actor=actor, reason=reason_of(request))
    return done(request, _("%(cluster)s has no gateway now.") % {"cluster": name}, to=_url_of(cluster))


def _visible_cluster(actor: Actor, name: str) -> Cluster:
    row = Cluster.objects.for_actor(actor).select_related("team").filter(name=name).first()
    if row is None:
        raise Http404(_("There is no cluster %(name)s, or you may not see it.") % {"name": name})
    return row


def _url_of(cluster: Cluster) -> str:
    return f"/fleet/clusters/{cluster.name}/"


@require_POST
@signed_in
@refusals_at_the_form
def demand(request: HttpRequest, name: str, demanded: str) -> HttpResponse:
    """Have the gateway answer for a service to clients with a key alone, or to everybody again."""
    if demanded not in ("required", "open"):
        raise Http404
    is_required = demanded == "required"
    reason = reason_of(request, is_demanded=False)
    demand_key(name, actor=of_request(request), demanded=is_required, reason=reason)
    words = _("%(name)s answers to clients with a key alone, within seconds.")
    if not is_required:
        words = _("%(name)s answers to everybody who reaches the gateway, within seconds.")
    return done(request, words % {"name": name}, to=f"/services/{name}/settings/")
