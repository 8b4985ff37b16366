"""Environments: which version is where, what is ahead, and its promotion along an edge."""

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import may, teams_where
from accounts.states import Right
from clusters.models import Cluster
from common.actor import Actor
from common.errors import Invalid, SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from releases.environment_models import EnvironmentGraph
from releases.selectors.environments import environments_for, stages_of
from releases.services import environments as services
from releases.views.services import visible_service

PATH = "/environments/"


class EnvironmentEditForm(forms.Form):
    stages = forms.CharField(
        max_length=2000,
        label=gettext_lazy("Stages"),
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "staging: chat-staging\nproduction: chat"}),
        help_text=gettext_lazy(
            "A line each, in their order: stage: service. Versions come from the line before, or from those "
            "named after <: production: chat < staging; they start where nothing is named after <. A ! at "
            "the end: promoted automatically."
        ),
    )

    def clean_stages(self) -> list[dict[str, Any]]:
        return [_stage(line) for line in self.cleaned_data["stages"].splitlines() if line.strip()]


class EnvironmentForm(EnvironmentEditForm):
    team = forms.ModelChoiceField(
        Team.objects.none(), to_field_name="name", label=gettext_lazy("Team"), empty_label=None
    )
    name = forms.SlugField(max_length=63, label=gettext_lazy("Name"))
    field_order = ("team", "name", "stages")

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["team"]
        field.queryset = teams_where(actor, Right.SERVICES_WRITE).order_by("name")


def _stage(line: str) -> dict[str, Any]:
    text = line.strip()
    is_automatic = text.endswith("!")
    left, sign, after = text.rstrip("!").partition("<")
    name, colon, service = (part.strip() for part in left.partition(":"))
    if not (name and colon and service):
        raise forms.ValidationError(_("%(line)s is no line such as production: chat.") % {"line": line})
    names = [one.strip() for one in after.split(",") if one.strip()]
    return {"name": name, "service": service, "after": names if sign else None, "is_automatic": is_automatic}


class ServiceCopyForm(forms.Form):
    name = forms.CharField(
        max_length=50,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy(
            "The copy has the version that serves, the plan, and the settings of workers. Alias, release "
            "policy, indicators, adapters and the demand for keys are not copied."
        ),
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(), to_field_name="name", label=gettext_lazy("Cluster"), empty_label=None
    )

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["cluster"]
        field.queryset = Cluster.objects.for_actor(actor).order_by("name")


@require_safe
@signed_in
def environments(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    shown = [
        {
            "graph": graph,
            "stages": stages_of(graph),
            "may_promote": may(actor, Right.RELEASES_START, graph.team),
            "may_change": may(actor, Right.SERVICES_WRITE, graph.team),
        }
        for graph in environments_for(actor)[:20]
    ]
    context = {"shown": shown, "may_add": may(actor, Right.SERVICES_WRITE)}
    return page(request, "releases/environments.html", context, parts=("graphs",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_environments(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    form = EnvironmentForm(request.POST if request.method == "POST" else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            graph = services.create_environments(actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("The stages of %(name)s are saved.") % {"name": graph.name}, to=PATH)
    context = {"form": form, "title": _("New environments"), "submit": _("Create"), "back": PATH}
    return page(
        request, "releases/environment_form.html", context, status=UNPROCESSABLE if form.errors else 200
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit_environments(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    graph = get_object_or_404(environments_for(actor), pk=pk)
    if not may(actor, Right.SERVICES_WRITE, graph.team):
        raise PermissionDenied
    form = EnvironmentEditForm(
        request.POST if request.method == "POST" else None, initial={"stages": _lines(graph)}
    )
    if form.is_bound and form.is_valid():
        try:
            services.change_environments(graph, actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("The stages of %(name)s are saved.") % {"name": graph.name}, to=PATH)
    title = _("Edit %(name)s") % {"name": graph.name}
    context = {"form": form, "title": title, "submit": _("Save"), "back": PATH}
    return page(
        request, "releases/environment_form.html", context, status=UNPROCESSABLE if form.errors else 200
    )


def _lines(graph: EnvironmentGraph) -> str:
    """Return the stages as the form takes them."""
    lines, before = [], ""
    for stage in graph.stages.select_related("service"):
        follows = stage.after == ([before] if before else [])
        after = "" if follows else f" < {', '.join(stage.after)}"
        lines.append(f"{stage.name}: {stage.service.name}{after}{'!' if stage.is_automatic else ''}")
        before = stage.name
    return "\n".join(lines)


@require_POST
@signed_in
@refusals_at_the_form
def promote_stage(request: HttpRequest, pk: int, stage: str) -> HttpResponse:
    actor = of_request(request)
    graph = get_object_or_404(environments_for(actor), pk=pk)
    reason = reason_of(request, is_demanded=False)
    release = services.promote(graph, stage=stage, actor=actor, reason=reason)
    words = _("Release %(release)s has started.") % {"release": release.pk}
    return done(request, words, to=f"/releases/{release.pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    graph = get_object_or_404(environments_for(actor), pk=pk)
    services.delete_environments(graph, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("Deleted. The services stay."), to=PATH)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def copy(request: HttpRequest, name: str) -> HttpResponse:
    """Copy a service with its settings to another cluster."""
    actor = of_request(request)
    service = visible_service(actor, name)
    form = ServiceCopyForm(
        request.POST if request.method == "POST" else None,
        actor=actor,
        initial={"cluster": service.cluster.name},
    )
    if form.is_bound and form.is_valid():
        try:
            made = services.copy_service(service, actor=actor, **form.cleaned_data)
        except Invalid as error:
            blame(form, error)
        except SlipwayError as error:
            form.add_error(None, str(error))
        else:
            words = _("%(service)s is being started.") % {"service": made.name}
            return done(request, words, to=f"/services/{made.name}/")
    context = {
        "form": form,
        "title": _("Copy %(service)s") % {"service": service.name},
        "submit": _("Copy"),
        "back": f"/services/{name}/",
    }
    return page(
        request, "releases/environment_form.html", context, status=UNPROCESSABLE if form.errors else 200
    )
