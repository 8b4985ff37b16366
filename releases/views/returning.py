"""Any version back: the versions that served before, what is different in one, and the return to it."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from models_registry.selectors.versions import compare_versions
from releases.forms.policy import reason_field
from releases.models import Service
from releases.pages.changes import ChangeLine, change_lines
from releases.pages.strip import strip_of_plan
from releases.services.returning import FormerVersion, former_versions, return_to
from releases.views.services import visible_service


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def return_page(request: HttpRequest, name: str) -> HttpResponse:
    """List the versions that served before; `?version=v1` shows what returning to one means."""
    actor = of_request(request)
    service = visible_service(actor, name)
    former = former_versions(service) if service.stable_version_id else []
    wanted = request.POST.get("version", request.GET.get("version", ""))
    chosen = next((one for one in former if one.version.name == wanted), None)
    fault, reason = "", request.POST.get("reason", "").strip()
    if request.method == "POST" and chosen is not None:
        try:
            if not reason:
                raise _Unreasoned(_("Say why."))
            release = return_to(service, version=chosen.version, actor=actor, reason=reason)
        except SlipwayError as error:
            fault = str(error)
        else:
            words = _("Release %(release)s brings %(version)s back.")
            told = {"release": release.pk, "version": chosen.version}
            return done(request, words % told, to=f"/releases/{release.pk}/")
    context = {
        "service": service,
        "former": former,
        "chosen": chosen,
        "fault": fault,
        "reason": reason,
        "may_operate": may(actor, Right.RELEASES_OPERATE, service.team, service=service.name),
        "lines": _lines(service, chosen) if chosen else [],
        "strip": strip_of_plan(chosen.plan) if chosen else [],
        "max_reason": reason_field("").max_length,
    }
    return page(request, "releases/return.html", context, status=UNPROCESSABLE if fault else 200)


class _Unreasoned(SlipwayError):
    """No reason was given."""


def _lines(service: Service, chosen: FormerVersion) -> list[ChangeLine]:
    if service.stable_version is None:
        return []
    before, after = service.stable_version, chosen.version
    return change_lines(before, after, compare_versions(before, after))
