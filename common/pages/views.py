from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.template import loader
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from common.pages import search, styleguide
from common.pages.access import signed_in
from common.pages.answers import dialog_fields, done, page, refusals_at_the_form, refused
from common.pages.forms import filled

LONGEST_SEARCH = 200


@require_safe
@signed_in
def find(request: HttpRequest) -> HttpResponse:
    """`/search/?q=...`: what the search box found, as a page or as the list under the box."""
    text = request.GET.get("q", "")[:LONGEST_SEARCH].strip()
    context = {"search_text": text, "groups": search.find(request.user, text)}
    return page(request, "search.html", context, parts=("found",))


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 (Django's signature)
    """CSRF_FAILURE_VIEW: usually a page that stayed open over a new sign-in."""
    words = _("This page is from an earlier sign-in. Go back, reload it and repeat what you did.")
    return HttpResponse(loader.render_to_string("403.html", {"exception": words}), status=403)


@refusals_at_the_form
def style_guide(request: HttpRequest) -> HttpResponse:
    """Every component with sample content, for those who build screens; nobody else knows that it exists."""
    person = request.user
    if not (settings.DEBUG or (person.is_active and getattr(person, "is_superuser", False))):
        raise Http404
    if request.method == "POST":
        if request.POST.get("reason", "").strip().lower() == "no":
            reason, advice = "Release 12 is already promoted.", "Roll it back instead."
            return refused(request, reason, advice=advice)
        if "replicas" in request.POST:
            filled(styleguide.StyleguideForm(request.POST))
        return done(request, f"Release 12 aborted: {request.POST.get('reason', '')}")  # untranslated
    if "fields" in request.GET:
        return dialog_fields(request, styleguide.StyleguideForm(auto_id="scale_%s"))
    return page(request, "common/styleguide.html", styleguide.samples(request), parts=("listing", "clock"))
