"""Trying a service out: stable and candidate side by side. The page asks by REST, as everybody may."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.pages.access import signed_in
from common.pages.answers import page
from releases.playground import CHAT, PlaygroundRoute, routes_of, sides_of, usual_body
from releases.views.services import visible_service


@require_safe
@signed_in
def playground(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    service = visible_service(actor, name)
    if not may(actor, Right.SERVICES_WRITE, service.team):
        raise PermissionDenied
    sides = sides_of(service)
    routes = routes_of(service, sides)
    asked = (request.GET.get("method"), request.GET.get("path"))
    usual = routes[0] if routes else PlaygroundRoute("POST", "/")
    chosen = next((route for route in routes if (route.method, route.path) == asked), usual)
    context = {
        "service": service,
        "sides": sides,
        "routes": routes,
        "chosen": chosen,
        "is_chat": chosen.path == CHAT,
        "body": usual_body(service, chosen.path),
    }
    return page(request, "releases/playground.html", context)
