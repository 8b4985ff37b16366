from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from accounts.actors import of_request
from common.pages.access import signed_in
from common.pages.answers import page
from controlplane.home.board import HomePage

PARTS = ("inbox", "motion", "fleet", "parts")


@require_safe
@signed_in
def home(request: HttpRequest) -> HttpResponse:
    return page(request, "home/home.html", {"shown": HomePage(of_request(request))}, parts=PARTS)
