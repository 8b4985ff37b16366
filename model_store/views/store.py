"""The store: what it holds, and what was done to it."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may_everywhere
from accounts.states import Right
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import filled, reason_of
from common.pages.listing import list_page
from common.reconcile import pruning
from model_store import selectors, services
from model_store.forms import CollectionForm
from model_store.models import CorruptBlob
from model_store.states import CorruptBlobState

FINDINGS_SHOWN = 50
SORTS = {"began": "began_at", "deleted": "deleted_bytes"}


@require_safe
@signed_in
def store_page(request: HttpRequest) -> HttpResponse:
    if not may_everywhere(of_request(request), Right.FLEET_OPERATE):
        return page(request, "model_store/store_closed.html", status=403)
    grace_hours = settings.SLIPWAY_STORE_GRACE_SECONDS // 3600
    now = selectors.store_now()
    corrupt_blobs = list(selectors.corrupt_blobs()[:FINDINGS_SHOWN])
    context = {
        "findings": selectors.corrupt_blob_cards(corrupt_blobs),
        "last_check": now.last_check,
        "check_days": settings.SLIPWAY_STORE_CHECK_DAYS,
        "store": now,
        "listing": list_page(request, selectors.collections(), sorts=SORTS, default_sort="-began", size=20),
        "grace_hours": grace_hours,
        "collection_form": CollectionForm(initial={"grace_hours": grace_hours}, auto_id="collect_%s"),
        "is_moving": any(run and run.is_running for run in (now.last_collection, now.last_check))
        or any(one.state in (CorruptBlobState.FOUND, CorruptBlobState.ASIDE) for one in corrupt_blobs),
    }
    return page(request, "model_store/store.html", context, parts=("now",))


@require_safe
@signed_in
def store_kept(request: HttpRequest) -> HttpResponse:
    if not may_everywhere(of_request(request), Right.FLEET_OPERATE):
        return page(request, "model_store/store_closed.html", status=403)
    context = {"title": _("Data retention"), "kept": pruning.kept()}
    return page(request, "model_store/store_kept.html", context, parts=("kept",))


@require_POST
@signed_in
@refusals_at_the_form
def collect(request: HttpRequest) -> HttpResponse:
    grace_seconds = filled(CollectionForm(request.POST)).cleaned_data["grace_hours"] * 3600
    services.start_collection(
        actor=of_request(request), grace_seconds=grace_seconds, reason=reason_of(request)
    )
    return done(request, _("The collection has begun."), to="/models/+store/")


@require_POST
@signed_in
@refusals_at_the_form
def check(request: HttpRequest) -> HttpResponse:
    services.start_check(actor=of_request(request), reason=reason_of(request))
    return done(request, _("The check has begun."), to="/models/+store/")


@require_POST
@signed_in
@refusals_at_the_form
def repair(request: HttpRequest, pk: int) -> HttpResponse:
    why = reason_of(request, is_demanded=False)
    corrupt_blob = get_object_or_404(CorruptBlob, pk=pk)
    services.retry_repair(actor=of_request(request), corrupt_blob=corrupt_blob, reason=why)
    return done(request, _("Its sources are asked once more."), to="/models/+store/")
