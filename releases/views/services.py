"""Services: the list, one of them, a new one, its settings, and a version on its way to it."""

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_everywhere
from accounts.states import Right
from common.actor import Actor
from common.errors import Invalid, SlipwayError
from common.pages.access import signed_in
from common.pages.answers import done, is_part_request, page, refusals_at_the_form
from common.pages.forms import reason_of
from common.pages.listing import list_page
from gateway.key_selectors import access_of
from gateway.states import KNOWS_KEYS
from releases.filters import ServiceFilter
from releases.forms.live import LiveForm
from releases.forms.release import ReleaseForm
from releases.forms.release_header import ReleaseHeaderForm
from releases.forms.service import NewServiceForm, ServiceChangeForm
from releases.models import Service
from releases.pages.live import live_at
from releases.pages.pod_fields import field_of
from releases.pages.service import ServicePage
from releases.selectors.plans import usual_plan_of
from releases.selectors.services import services_for, summarised
from releases.services.freezing import resume_automation
from releases.services.release import start_release
from releases.services.release_header import set_release_header
from releases.services.service import change_service, create_service

SORTS = {
    "name": "name",
    "model": "model__name",
    "cluster": "cluster__name",
    "replicas": "replicas",
    "since": "stable_since",
}
UNPROCESSABLE = 422
CHOOSING = ("choices", "picked", "memory")
"""What of a service's form follows from what has been filled in."""


@require_safe
@signed_in
def service_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(request, services_for(actor), sorts=SORTS, default_sort="name", filters=ServiceFilter)
    summarised(listing.rows)
    context = {"listing": listing, "may_create": may(actor, Right.SERVICES_WRITE)}
    return page(request, "releases/services.html", context, parts=("listing",))


@require_safe
@signed_in
def service_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    shown = ServicePage(visible_service(actor, name), actor, span=request.GET.get("range", ""))
    context = {"shown": shown, "service": shown.service, "refreshes": is_part_request(request)}
    return page(request, "releases/service.html", context, parts=("now",))


@require_safe
@signed_in
def live_page(request: HttpRequest, name: str) -> HttpResponse:
    """The versions that answered at the time `?at=`."""
    actor = of_request(request)
    service = visible_service(actor, name)
    form = LiveForm(request.GET if "at" in request.GET else None)
    context: dict[str, Any] = {
        "form": form,
        "service": service,
        "may_audit": may_everywhere(actor, Right.AUDIT_READ),
    }
    if form.is_bound and form.is_valid():
        try:
            context["live"] = live_at(service, form.cleaned_data["at"])
        except Invalid as error:
            _blame(form, error)
    return page(request, "releases/live.html", context, status=UNPROCESSABLE if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_service(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    if request.method != "POST":
        form = NewServiceForm(actor=actor, typed=request.GET.dict())
        return page(request, "releases/new_service.html", {"form": form})
    if request.POST.get("choosing"):
        # Show what can be chosen with what has been, and blame nothing yet.
        form = NewServiceForm(actor=actor, typed=request.POST.dict())
        return page(request, "releases/new_service.html", {"form": form}, parts=CHOOSING)
    form = NewServiceForm(request.POST, actor=actor)
    if form.is_valid():
        try:
            service = create_service(actor=actor, **form.changes())
        except SlipwayError as error:
            _blame(form, error)
        else:
            return done(
                request,
                _("%(service)s is being started.") % {"service": service.name},
                to=f"/services/{service.name}/",
            )
    return page(request, "releases/new_service.html", {"form": form}, status=UNPROCESSABLE)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_settings(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    service = visible_service(actor, name)
    if request.POST.get("choosing"):
        typed = ServiceChangeForm(service=service, actor=actor, typed=request.POST.dict())
        shown = {"form": typed, "service": service}
        return page(request, "releases/service_settings.html", shown, parts=CHOOSING)
    form = ServiceChangeForm(request.POST if request.method == "POST" else None, service=service, actor=actor)
    if not form.is_bound:
        return _settings_page(request, service, form=form)
    if form.is_valid():
        changes = form.changes()
        try:
            change_service(
                service,
                actor=actor,
                expected_revision=changes.pop("revision"),
                reason=form.cleaned_data["reason"],
                **changes,
            )
        except SlipwayError as error:
            _blame(form, error)
        else:
            return done(
                request,
                _("Saved. The next release of %(name)s uses it.") % {"name": name},
                to=f"/services/{name}/",
            )
    return _settings_page(request, service, form=form)


@require_POST
@signed_in
@refusals_at_the_form
def resume(request: HttpRequest, name: str) -> HttpResponse:
    """Let releases start by themselves again after a rollback by hand."""
    actor = of_request(request)
    reason = reason_of(request, is_demanded=False)
    resume_automation(visible_service(actor, name), actor=actor, reason=reason)
    return done(request, _("Releases may start by themselves again."), to=f"/services/{name}/")


@require_POST
@signed_in
def release_header(request: HttpRequest, name: str) -> HttpResponse:
    """The one place where a new key is shown."""
    actor = of_request(request)
    service = visible_service(actor, name)
    form = ReleaseHeaderForm(request.POST, present=service.release_header)
    if not form.is_valid():
        return _settings_page(request, service, header_form=form)
    header, reason = form.cleaned_data["release_header"], form.cleaned_data["reason"]
    try:
        key = set_release_header(service, actor=actor, header=header, reason=reason)
    except SlipwayError as error:
        _blame(form, error)
        return _settings_page(request, service, header_form=form)
    if not key:
        return done(request, _("Saved. The gateway follows within seconds."), to=f"/services/{name}/")
    answer = page(request, "releases/release_key.html", {"service": service, "key": key}, status=201)
    answer["Cache-Control"] = "no-store"
    return answer


def _settings_page(
    request: HttpRequest,
    service: Service,
    *,
    form: ServiceChangeForm | None = None,
    header_form: ReleaseHeaderForm | None = None,
) -> HttpResponse:
    """Both forms, that one with its faults which was filled in."""
    actor, access = of_request(request), access_of(service.name)
    context = {
        "form": form or ServiceChangeForm(service=service, actor=actor),
        "header_form": header_form or ReleaseHeaderForm(present=service.release_header),
        "service": service,
        "shown": ServicePage(service, actor),
        "access": access,
        "knows_keys": access is not None and access.gateway.kind in KNOWS_KEYS,
    }
    is_refused = any(one is not None and one.is_bound for one in (form, header_form))
    return page(
        request, "releases/service_settings.html", context, status=UNPROCESSABLE if is_refused else 200
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def release_version(request: HttpRequest, name: str) -> HttpResponse:
    """Choose a version, a plan and a reason; `?version=v2` chooses the first."""
    actor = of_request(request)
    service = visible_service(actor, name)
    if request.method != "POST":
        initial = {"plan": usual_plan_of(service)} | {
            key: value for key, value in request.GET.items() if value
        }
        form = ReleaseForm(service=service, actor=actor, initial=initial)
        return _release_form(request, service, form)
    form = ReleaseForm(request.POST, service=service, actor=actor)
    if form.is_valid():
        given = form.cleaned_data
        try:
            release = start_release(
                actor=actor,
                service=service,
                version=given["version"],
                plan_name=given["plan"],
                reason=given["reason"].strip(),
                image=given.get("image"),
                bypass=given.get("bypass", ""),
                override=given.get("override", ""),
            )
        except SlipwayError as error:
            _blame(form, error)
        else:
            return done(
                request,
                _("Release %(release)s has started.") % {"release": release.pk},
                to=f"/releases/{release.pk}/",
            )
    return _release_form(request, service, form, status=UNPROCESSABLE)


def _release_form(
    request: HttpRequest, service: Service, form: ReleaseForm, *, status: int = 200
) -> HttpResponse:
    shown = ServicePage(service, of_request(request))
    plan_name = str(form["plan"].value() or usual_plan_of(service))
    context: dict[str, Any] = {
        "form": form,
        "service": service,
        "shown": shown,
        "plan_name": plan_name,
        "plan_strip": shown.strip_of_plan(plan_name),
        "shortfalls": shown.shortfalls_of_plan(plan_name),
        "may_bypass": shown.may_bypass,
        "model_url": f"/models/{service.model.name}/",
        "foreseen": SimpleLazyObject(lambda: shown.image_for(form.chosen_version(), form.chosen_image())),
    }
    parts = ("plan-strip", "image-choice")
    return page(request, "releases/release_version.html", context, parts=parts, status=status)


FIELDS = {"plan_name": "plan", "cluster_rule": "cluster"}
"""What services call otherwise than forms do."""


def _blame(form: forms.Form, error: SlipwayError) -> None:
    """Put the domain's words where they belong: at the field, or above the form."""
    if not isinstance(error, Invalid) or not error.fields:
        form.add_error(None, str(error))
        return
    for name, sentences in error.fields.items():
        name = field_of(name) if name.startswith(("pod.", "resources.")) else FIELDS.get(name, name)
        for sentence in sentences:
            is_field = name in form.fields
            form.add_error(name if is_field else None, sentence if is_field else f"{name}: {sentence}")


def visible_service(actor: Actor, name: str) -> Service:
    found = services_for(actor).filter(name=name).first()
    if found is None:
        raise Http404(_("There is no such service, or you may not see it."))
    return found
