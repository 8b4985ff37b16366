"""Trying a service out: stable and candidate side by side."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, page
from releases.forms.playground import PlaygroundForm
from releases.playground import routes_of, sides_of, try_out, usual_body
from releases.views.services import visible_service


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def playground(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    service = visible_service(actor, name)
    if not may(actor, Right.SERVICES_WRITE, service.team):
        raise PermissionDenied
    sides = sides_of(service)
    routes = routes_of(service, sides)
    path = request.GET.get("path") or next(iter(routes), "/")
    initial = {"path": path, "body": usual_body(service, path)}
    form = PlaygroundForm(request.POST if request.method == "POST" else None, routes=routes, initial=initial)
    answers = []
    if form.is_bound and form.is_valid():
        answers = try_out(sides, form.cleaned_data["path"], form.cleaned_data["body"])
    context = {"service": service, "sides": sides, "routes": routes, "form": form, "answers": answers}
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    return page(request, "releases/playground.html", context, status=status)
