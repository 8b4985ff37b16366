"""The catalogue of images: the list, one of them, a new one, and which fits."""

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_for_owner
from accounts.states import Right
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, filled, reason_of
from common.pages.listing import list_page
from images import cuda, pulls, selectors, services
from images.choosing import ChosenImage
from images.filters import ImageFilter
from images.forms import DeprecationForm, FitForm, ImageChangeForm, NewImageForm, RefreshForm, TrialForm
from images.models import RuntimeImage
from images.refreshing import ADDABLE, Proposal, refresh_images
from images.uses import pull_times, uses
from images.wishing import wish_of

SORTS = {
    "name": "name",
    "engine": "engine",
    "cuda": "cuda_version",
    "size": "size_bytes",
    "team": "team__name",
    "added": "created_at",
}


@require_safe
@signed_in
def image_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request, selectors.images(actor), sorts=SORTS, default_sort="name", filters=ImageFilter
    )
    context = {"listing": listing, "may_add": may(actor, Right.FLEET_OPERATE)}
    return page(request, "images/images.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_image(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    form = NewImageForm(request.POST if request.method == "POST" else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            image = services.add_image(actor=actor, **form.wishes())
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("%(image)s is in the catalogue.") % {"image": image}, to=_url_of(image))
    status = UNPROCESSABLE if form.is_bound else 200
    context = {"form": form, "may_add": may(actor, Right.FLEET_OPERATE)}
    return page(request, "images/new_image.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def refresh(request: HttpRequest) -> HttpResponse:
    """Read a registry and show what the catalogue lacks; the second button adds it."""
    actor = of_request(request)
    form = RefreshForm(request.POST if request.method == "POST" else None, actor=actor)
    proposals: list[Proposal] | None = None
    if form.is_bound and form.is_valid():
        try:
            proposals = refresh_images(actor=actor, add="add" in request.POST, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
    status = UNPROCESSABLE if form.is_bound and proposals is None else 200
    context = {
        "form": form,
        "may_add": may(actor, Right.FLEET_OPERATE),
        "proposals": proposals,
        "is_new": any(one.outcome in ADDABLE and not one.is_added for one in proposals or ()),
    }
    return page(request, "images/refresh.html", context, status=status)


@require_safe
@signed_in
def fit(request: HttpRequest) -> HttpResponse:
    """`?engine=vllm&gpu=...`: what fits best, and why each of the others is not it; answers as one types."""
    actor = of_request(request)
    form = FitForm(request.GET if request.GET else None, actor=actor)
    choice: ChosenImage | None = None
    if form.is_bound and form.is_valid():
        try:
            wish = wish_of(actor, **form.asked())
        except SlipwayError as error:
            blame(form, error)
        else:
            choice = selectors.chosen(selectors.images(actor), wish)
    context = {"form": form, "choice": choice}
    return page(request, "images/fit.html", context, parts=("answer",))


@require_safe
@signed_in
def image_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    image = _image(actor, name)
    context = {
        "image": image,
        "trials": image.trials.all(),
        "uses": uses(actor, image),
        "pull_times": pull_times(actor, image),
        "mirrors": [(region, image.reference_in(region)) for region in image.mirrors],
        "table_driver": cuda.least_driver(image.cuda_version),
        "may_change": _may_change(actor, image),
        "deprecation_form": DeprecationForm(image=image, actor=actor, auto_id="deprecate_%s"),
        "trial_form": TrialForm(auto_id="trial_%s"),
    }
    return page(request, "images/image.html", context, parts=("trials",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def image_settings(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    image = _image(actor, name)
    names = ("description", "mirrors", "acceleration", "acceleration_why", "revision")
    form = ImageChangeForm(
        request.POST if request.method == "POST" else None,
        initial={one: getattr(image, one) for one in names},
    )
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        try:
            services.change_image(actor=actor, image=image, expected=given.pop("revision"), **given)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Saved."), to=_url_of(image))
    status = UNPROCESSABLE if form.is_bound else 200
    context = {"image": image, "form": form, "may_change": _may_change(actor, image)}
    return page(request, "images/image_settings.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def deprecate(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    image = _image(actor, name)
    given = filled(DeprecationForm(request.POST, image=image, actor=actor)).cleaned_data
    services.deprecate_image(actor=actor, image=image, reason=reason_of(request), **given)
    return done(request, _("%(image)s is deprecated.") % {"image": image}, to=_url_of(image))


@require_POST
@signed_in
@refusals_at_the_form
def reinstate(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    image = _image(actor, name)
    services.reinstate_image(actor=actor, image=image, reason=reason_of(request))
    return done(request, _("Releases may pick %(image)s again.") % {"image": image}, to=_url_of(image))


@require_POST
@signed_in
@refusals_at_the_form
def clear_pull_failure(request: HttpRequest, name: str, cluster: str) -> HttpResponse:
    actor = of_request(request)
    image = _image(actor, name)
    pulls.clear_pull_failure(actor=actor, image=image, cluster=cluster, reason=reason_of(request))
    words = _("Releases on %(cluster)s may pick %(image)s again.") % {"cluster": cluster, "image": image}
    return done(request, words, to=_url_of(image))


@require_POST
@signed_in
@refusals_at_the_form
def note_trial(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    image = _image(actor, name)
    given = filled(TrialForm(request.POST)).cleaned_data
    services.note_trial(actor=actor, image=image, **given)
    return done(request, _("Noted for %(image)s.") % {"image": image}, to=_url_of(image))


def _image(actor: Actor, name: str) -> RuntimeImage:
    return or_404(selectors.image_named, actor, name)


def _may_change(actor: Actor, image: RuntimeImage) -> bool:
    return may_for_owner(actor, Right.FLEET_OPERATE, image.team_id)


def _url_of(image: RuntimeImage) -> str:
    return f"/images/{image.name}/"
