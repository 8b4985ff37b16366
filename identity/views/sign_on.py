"""Settings, single sign-on: the provider, group rules, and what they would change."""

from typing import Any

from cryptography.hazmat.primitives import hashes
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import actors
from accounts import selectors as accounts
from accounts.states import Right
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from identity import saml_keys, saml_logout, selectors
from identity.errors import ProviderUnavailable
from identity.forms import GroupRuleForm, GroupsForm
from identity.group_rules import GroupPattern
from identity.models import GroupRule, Identity, ProviderCheck
from identity.services import rules, sign_on

PAGE = "/settings/sign-on/"
SORTS = {"group": "pattern", "team": "team__name", "created": "created_at"}


def _closed(request: HttpRequest) -> HttpResponse | None:
    """The page that says who may, for those who may not."""
    if accounts.may_everywhere(actors.of_request(request), Right.PEOPLE_ADMIN):
        return None
    return page(request, "identity/closed.html", status=403)


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    if closed := _closed(request):
        return closed
    listing = list_page(
        request, selectors.rules(actors.of_request(request)), sorts=SORTS, default_sort="group"
    )
    in_force = selectors.rules_in_force()
    form = GroupsForm(request.GET if "groups" in request.GET else None)
    tried = None
    if form.is_bound and form.is_valid():
        tried = selectors.tried(in_force, rules.parsed_groups(form.cleaned_data["groups"]))
    context = {
        "listing": listing,
        "form": form,
        "tried": tried,
        "pending": selectors.dry_run(in_force),
        "issuer": settings.SLIPWAY_OIDC_SERVER_URL,
        "saml_source": settings.SLIPWAY_SAML_METADATA,
        "saml_metadata_url": _absolute("saml-metadata"),
        "saml_acs_url": _absolute("saml-acs"),
        "saml_sign_out_url": _absolute("saml-sign-out") if saml_logout.is_offered() else "",
        "saml_certificates": _saml_certificates(),
        "claim": settings.SLIPWAY_GROUPS_CLAIM,
        "minutes": settings.SLIPWAY_OIDC_CHECK_MINUTES,
        "passwords": settings.SLIPWAY_PASSWORD_LOGIN,
        "break_glass": settings.SLIPWAY_BREAK_GLASS_ACCOUNT,
        "known": Identity.objects.count(),
        "watched": Identity.objects.exclude(sealed_refresh_token="").count(),
        "provider_check": ProviderCheck.objects.first(),
        "sign_out_url": _absolute("backchannel-logout", provider_id=sign_on.provider_id() or "sso"),
    }
    return page(request, "identity/overview.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_rule(request: HttpRequest) -> HttpResponse:
    if closed := _closed(request):
        return closed
    form = GroupRuleForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"form": form, "rule": None}
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        if "preview" in request.POST:
            context["dry_run"] = selectors.dry_run([*selectors.rules_in_force(), _as_rule(given)])
            return page(request, "identity/rule.html", context)
        try:
            made = rules.create_rule(actor=actors.of_request(request), **given)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Rule %(rule)s is in force.") % {"rule": made}, to=PAGE)
    return page(request, "identity/rule.html", context, status=UNPROCESSABLE if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def rule(request: HttpRequest, pk: int) -> HttpResponse:
    if closed := _closed(request):
        return closed
    shown = _rule(request, pk)
    others = [GroupPattern(one.pattern, one.team_id, one.role) for one in GroupRule.objects.exclude(pk=pk)]
    initial = {"pattern": shown.pattern, "team": shown.team, "role": shown.role}
    form = GroupRuleForm(request.POST if request.method == "POST" else None, initial=initial)
    context: dict[str, Any] = {"form": form, "rule": shown, "without": selectors.dry_run(others)}
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        if "preview" in request.POST:
            context["dry_run"] = selectors.dry_run([*others, _as_rule(given)])
            return page(request, "identity/rule.html", context)
        try:
            rules.change_rule(actor=actors.of_request(request), rule=shown, **given)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Saved."), to=PAGE)
    return page(request, "identity/rule.html", context, status=UNPROCESSABLE if form.is_bound else 200)


@require_POST
@signed_in
@refusals_at_the_form
def delete_rule(request: HttpRequest, pk: int) -> HttpResponse:
    actor = actors.of_request(request)
    rules.delete_rule(actor=actor, rule=_rule(request, pk), reason=reason_of(request, is_demanded=False))
    return done(request, _("The rule is deleted."), to=PAGE)


def _saml_certificates() -> dict[str, Any]:
    """Our own under `shown`, the one that signs first, or `problem`."""
    if not settings.SLIPWAY_SAML_METADATA:
        return {}
    try:
        found = saml_keys.certificates()
    except ProviderUnavailable as error:
        return {"problem": str(error)}
    return {
        "shown": [
            {
                "fingerprint": one.fingerprint(hashes.SHA256()).hex(":").upper(),
                "expires_at": one.not_valid_after_utc,
            }
            for one in found
        ]
    }


def _absolute(name: str, **parts: str) -> str:
    return f"{settings.SLIPWAY_PUBLIC_URL}{reverse(name, kwargs=parts)}"


def _as_rule(given: dict[str, Any]) -> GroupPattern:
    return GroupPattern(given["pattern"], given["team"].pk if given["team"] else None, given["role"])


def _rule(request: HttpRequest, pk: int) -> GroupRule:
    found = selectors.rules(actors.of_request(request)).filter(pk=pk).first()
    if found is None:
        raise Http404(_("There is no such rule, or you may not see it."))
    return found
