"""The pages by which clusters are added, checked, changed and removed."""

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_for_owner
from accounts.states import Right
from clusters import selectors
from clusters.backends.kinds import abilities_of
from clusters.filters import ClusterFilter
from clusters.forms import ClusterChangeForm, ManifestForm, NewClusterForm, OtherClusterChangeForm
from clusters.models import Cluster
from clusters.services.cluster_removal import remove_cluster
from clusters.services.clusters import change_cluster, check_cluster, register_cluster
from clusters.services.grants import granted
from clusters.states import ClusterKind
from clusters.views.clusters import visible_cluster
from clusters.views.fleet import frame
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page

SORTS = {"name": "name", "kind": "kind", "region": "region", "provider": "provider", "added": "created_at"}
NAMES = {"secrets": "kubeconfig"}


@require_safe
@signed_in
def clusters(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    rows = Cluster.objects.for_actor(actor).select_related("team")
    listing = list_page(request, rows, sorts=SORTS, default_sort="name", filters=ClusterFilter)
    fleet = selectors.fleet(actor)
    machines = {one.row.pk: len(one.nodes) for one in fleet.clusters}
    context = frame(request, fleet) | {
        "listing": listing,
        "shown": [(row, machines.get(row.pk, 0)) for row in listing.rows],
        "may_add": may(actor, Right.FLEET_OPERATE),
    }
    return page(request, "clusters/clusters.html", context, parts=("now", "listing"))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_cluster(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    bound = (request.POST, request.FILES) if request.method == "POST" else (None, None)
    form = NewClusterForm(*bound, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            row = register_cluster(actor=actor, kind=ClusterKind.KUBERNETES, **form.wishes())
        except (SlipwayError, ValidationError) as error:
            blame(form, error, NAMES)
        else:
            return done(request, _("%(name)s is added and being checked.") % {"name": row}, to=_url_of(row))
    status = UNPROCESSABLE if form.is_bound else 200
    context = _manifest(request) | {"form": form, "may_add": may(actor, Right.FLEET_OPERATE)}
    return page(request, "clusters/new_cluster.html", context, parts=("manifest",), status=status)


def _manifest(request: HttpRequest) -> dict[str, object]:
    """Return the manifest to be granted, for the ticked features."""
    asked = request.GET if "ticked" in request.GET else None
    form = ManifestForm(asked, auto_id="manifest_%s", prefix="grant")
    text = ""
    if not form.is_bound or form.is_valid():
        try:
            text = granted(**form.wanted())
        except SlipwayError as error:
            blame(form, error)
    return {"manifest_form": form, "manifest": text}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def cluster_settings(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    row = visible_cluster(actor, name)
    kind = ClusterChangeForm if abilities_of(row.kind).has_credentials else OtherClusterChangeForm
    bound = (request.POST, request.FILES) if request.method == "POST" else (None, None)
    form = kind(*bound, cluster=row)
    if form.is_bound and form.is_valid():
        given = form.wishes(row.settings)
        try:
            change_cluster(actor=actor, cluster=row, expected=given.pop("revision"), **given)
        except (SlipwayError, ValidationError) as error:
            blame(form, error, NAMES)
        else:
            return done(request, _("Saved."), to=_url_of(row))
    context = {
        "row": row,
        "form": form,
        "may_operate": may_for_owner(actor, Right.FLEET_OPERATE, row.team),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "clusters/cluster_settings.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def check(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    row = check_cluster(actor=actor, cluster=visible_cluster(actor, name))
    return done(request, _("%(name)s is being checked.") % {"name": row}, to=_url_of(row))


@require_POST
@signed_in
@refusals_at_the_form
def remove(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    remove_cluster(actor=actor, cluster=visible_cluster(actor, name), reason=reason_of(request))
    return done(request, _("%(name)s is being removed.") % {"name": name}, to="/fleet/clusters/")


def _url_of(row: Cluster) -> str:
    return f"/fleet/clusters/{row.name}/"
