"""Release plans: the list, one of them, and the editor."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from common.actor import Actor
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.steps import StepView
from gateway import selectors as gateway
from releases.models import Plan
from releases.pages.plan_form import PlanDraft
from releases.pages.strip import strip_of_plan
from releases.plans.builtin import DEFAULT_PLAN
from releases.plans.later import stored_plan
from releases.plans.step import kinds
from releases.plans.words import diff
from releases.policy import demands
from releases.selectors.plans import plans_for, policy_of_team, teams_with_services, uses_of_plans
from releases.services import plan as plan_services
from releases.services.plan import save_plan

UNPROCESSABLE = 422


@require_safe
@signed_in
def plan_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    rows = plans_for(actor)
    used = uses_of_plans(actor)
    listed = [
        {
            "plan": row,
            "url": _address(row),
            "strip": strip_of_plan(stored_plan(row.body)),
            "uses": used.get((row.team_id, row.name), 0),
        }
        for row in rows
    ]
    teams = [(team, demands(policy_of_team(team))) for team in teams_with_services(actor)]
    context = {"plans": listed, "may_write": _writable_teams(actor).exists(), "policies": teams}
    return page(request, "releases/plans.html", context)


@require_safe
@signed_in
def plan_page(request: HttpRequest, name: str, team: str = "") -> HttpResponse:
    actor = of_request(request)
    row = _plan(actor, team, name)
    draft = PlanDraft.of_document(dict(row.body))
    context = {
        "plan": row,
        "draft": draft,
        "strip": strip_of_plan(stored_plan(row.body)),
        "uses": uses_of_plans(actor).get((row.team_id, row.name), 0),
        "url": _address(row),
        "may_write": _writable_teams(actor).filter(pk=row.team_id).exists() if row.team_id else False,
        "may_copy": _writable_teams(actor).exists(),
    }
    return page(request, "releases/plan.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_plan(request: HttpRequest) -> HttpResponse:
    """`?from=canary` begins with a built-in plan, `?from=team/name` with a team's."""
    actor = of_request(request)
    teams = list(_writable_teams(actor).order_by("name"))
    if not teams:
        raise Http404(_("You may not write plans in any team."))
    if request.method == "POST":
        team = next((one for one in teams if one.name == request.POST.get("team")), teams[0])
        return _edit(
            request, actor, team=team, teams=teams, stored=None, name=request.POST.get("name", "").strip()
        )
    team_name, _slash, name = request.GET.get("from", DEFAULT_PLAN).rpartition("/")
    origin = _plan(actor, team_name, name)
    draft = PlanDraft.of_document(dict(origin.body))
    return _editor(request, draft, team=teams[0], teams=teams, stored=None, name="")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit_plan(request: HttpRequest, team: str, name: str) -> HttpResponse:
    actor = of_request(request)
    stored = _plan(actor, team, name)
    if not _writable_teams(actor).filter(pk=stored.team_id).exists():
        raise Http404(_("You may not write plans in this team."))
    if request.method == "POST":
        return _edit(request, actor, team=stored.team, teams=[stored.team], stored=stored, name=name)
    draft = PlanDraft.of_document(dict(stored.body))
    return _editor(request, draft, team=stored.team, teams=[stored.team], stored=stored, name=name)


@require_POST
@signed_in
@refusals_at_the_form
def delete_plan(request: HttpRequest, team: str, name: str) -> HttpResponse:
    actor = of_request(request)
    plan_services.delete_plan(_plan(actor, team, name), actor=actor, reason=request.POST.get("reason", ""))
    return done(request, _("The plan %(name)s is deleted.") % {"name": name}, to="/settings/plans/")


def _edit(
    request: HttpRequest, actor: Actor, *, team: Team, teams: list[Team], stored: Plan | None, name: str
) -> HttpResponse:
    given = request.POST.dict()
    if _is_preview(request):
        # htmx sends the button that has the focus along: whoever leaves a field by Tab has pressed none.
        given.pop("do", None)
    text = given.get("text")
    wish = given.get("do", "")
    # A new plan may have no name yet; its steps are to be checked all the same.
    working_name = name or "unnamed"
    if text is None:
        draft = PlanDraft.of_form(given, name=working_name)
    else:
        draft = PlanDraft.of_text(text, name=working_name)
    refusal = ""
    if wish == "save":
        if draft.plan is not None and (refusal := _save(actor, team, stored, name, draft, given)) == "":
            return done(
                request,
                _("The plan %(name)s is saved.") % {"name": name},
                to=f"/settings/plans/{team.name}/{name}/",
            )
        status = UNPROCESSABLE
    else:
        status = 200
    as_text = text is not None if wish not in ("form", "json") else wish == "json"
    if wish in ("form", "json"):
        draft = PlanDraft.of_document(draft.document) if draft.document.get("steps") else draft
    return _editor(
        request,
        draft,
        team=team,
        teams=teams,
        stored=stored,
        name=name,
        as_text=as_text,
        refusal=refusal,
        status=status,
    )


def _save(
    actor: Actor, team: Team, stored: Plan | None, name: str, draft: PlanDraft, given: dict[str, str]
) -> str:
    """Why not; empty when it is saved."""
    if not name:
        return _("Give the plan a name.")
    if stored is None and Plan.objects.filter(team=team, name=name).exists():
        return _("%(team)s has a plan %(name)s already. Choose another name, or change that one.") % {
            "team": team,
            "name": name,
        }
    revision = given.get("revision", "")
    try:
        save_plan(
            actor=actor,
            team=team,
            name=name,
            body=draft.document,
            expected_revision=int(revision) if stored is not None and revision.isdigit() else None,
            reason=given.get("reason", "")[:MAX_REASON],
        )
    except SlipwayError as error:
        return str(error)
    return ""


def _editor(
    request: HttpRequest,
    draft: PlanDraft,
    *,
    team: Team,
    teams: list[Team],
    stored: Plan | None,
    name: str,
    as_text: bool = False,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    before = stored_plan(stored.body) if stored else None
    changes = diff(before, draft.plan) if before and draft.plan else None
    strip: list[StepView] = strip_of_plan(draft.plan) if draft.plan else []
    context: dict[str, Any] = {
        "draft": draft,
        "team": team,
        "teams": teams,
        "stored": stored,
        "name": name,
        "as_text": as_text,
        "refusal": refusal,
        "changes": changes,
        "strip": strip,
        "kinds": [(name, gettext(kind.label)) for name, kind in kinds().items()],
        "reason": request.POST.get("reason", ""),
        "refreshes": _is_preview(request),
        "blind_clusters": gateway.clusters_that_miss_errors([team.pk]),
    }
    return page(request, "releases/plan_editor.html", context, parts=("editor", "preview"), status=status)


def _is_preview(request: HttpRequest) -> bool:
    """Only the check beside the form is asked for, while somebody types."""
    return request.headers.get("HX-Target") == "preview"


def _plan(actor: Actor, team: str, name: str) -> Plan:
    """A built-in plan without a team, or a team's."""
    for row in plans_for(actor):
        if row.name == name and (row.team.name if row.team_id else "") == team:
            return row
    raise Http404(_("There is no such plan, or you may not see it."))


def _address(row: Plan) -> str:
    return f"/settings/plans/{row.team.name}/{row.name}/" if row.team_id else f"/settings/plans/{row.name}/"


def _writable_teams(actor: Actor) -> Any:
    return teams_where(actor, Right.SERVICES_WRITE)
