"""Pages of a plain kind of row of a team, said once: list, one of them, the form of a new one, its verbs.

What needs a page of its own (a release, a service) writes its own views and templates.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_filters import FilterSet

from accounts.actors import of_request, of_user
from accounts.models import Team, User
from accounts.querysets import TeamOwned
from accounts.selectors import may, teams_where
from accounts.states import Right
from accounts.team_rows import TeamRow
from common.actor import Actor
from common.errors import SlipwayError
from common.languages import Text
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.formats import NO_VALUE
from common.pages.forms import blame, reason_of
from common.pages.inbox import InboxEntry
from common.pages.listing import list_page
from common.pages.search import Person, SearchDestination, SearchHit, SearchSource
from common.pages.shell import NavItem
from common.templatetags.slipway import ago, state
from common.words import mentioning


@dataclass(frozen=True, slots=True)
class ResourceColumn:
    """A column of the list, and a fact of the page."""

    title: Text
    value: str
    """Path from the row: `team.name`."""
    badges: str = ""
    """Badges that show it, where it is a state."""
    is_listed: bool = True
    """Otherwise the page of the row alone has it."""

    @property
    def key(self) -> str:
        """Sort key in the address."""
        return self.value.partition(".")[0]

    def shown(self, row: Model) -> Any:
        value = attrgetter(self.value)(row)
        if isinstance(value, datetime):
            return ago(value)
        if self.badges:
            return state(self.badges, value)
        if isinstance(value, float):
            value = round(value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return value if value or is_number else NO_VALUE


@dataclass(frozen=True, slots=True)
class ResourceVerb:
    """An action on a row; a dialog asks why, and the audit record keeps it."""

    name: str
    label: Text
    icon: str
    do: Callable[..., Any]
    """A service: `do(row, actor=actor, reason=reason)`."""
    states: Sequence[str]
    """Those of a row that offers it."""
    tone: str = "good"
    when: Callable[[Any], bool] = bool
    """What else must hold of a row that offers it."""
    is_removal: bool = False
    """The row is gone afterwards."""


def columns(badges: str) -> tuple[ResourceColumn, ...]:
    """Return the columns of every `TeamRow` with a state."""
    return (
        ResourceColumn(gettext_lazy("Name"), "name"),
        ResourceColumn(gettext_lazy("State"), "state", badges=badges),
        ResourceColumn(gettext_lazy("Team"), "team.name"),
        ResourceColumn(gettext_lazy("Description"), "description"),
        ResourceColumn(gettext_lazy("Created"), "created_at"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamResource:
    """The pages of one kind of row, which has a `state`."""

    model: type[TeamRow]
    noun: str
    """As the manifest's `nouns` have it, and as its addresses are named."""
    title: Text
    new: Text
    path: str
    icon: str
    rank: int
    """Place in the navigation."""
    right: Right
    """To make and to change one."""
    filters: type[FilterSet]
    form: type[forms.Form]
    """Its field `team`, if any, offers the teams in which the person has the right."""
    create: Callable[..., Any]
    """A service, which gets the fields of the form and the `actor`, and returns what `_created` shows."""
    columns: Sequence[ResourceColumn]
    """The first leads to the row's page."""
    verbs: Sequence[ResourceVerb] = ()
    about: Text = ""
    """Stands on the list while there is none: what one is good for."""

    @property
    def urlpatterns(self) -> list[URLPattern]:
        under = self.path.lstrip("/")
        return [
            path(under, require_safe(signed_in(self._list)), name=self.noun),
            path(
                f"{under}+new/",
                require_http_methods(["GET", "HEAD", "POST"])(signed_in(self._new)),
                name=f"new-{self.noun}",
            ),
            path(f"{under}<int:pk>/", require_safe(signed_in(self._row)), name=f"one-{self.noun}"),
            path(
                f"{under}<int:pk>/+<str:wish>/",
                require_POST(signed_in(refusals_at_the_form(self._act))),
                name=f"{self.noun}-act",
            ),
        ]

    @property
    def nav(self) -> NavItem:
        """Its pages look again when something was done to its rows."""
        return NavItem(name=self.title, path=self.path, icon=self.icon, rank=self.rank, follows_changes=True)

    @property
    def search(self) -> SearchSource:
        return SearchSource(self.title, self.find)

    @property
    def destinations(self) -> tuple[SearchDestination, ...]:
        new = f"{self.path}+new/"
        return (
            SearchDestination(title=self.title, url=self.path, icon=self.icon),
            SearchDestination(title=self.new, url=new, icon=self.icon, right=self.right, is_command=True),
        )

    def rows(self, actor: Actor, right: Right = Right.READ) -> QuerySet[Any]:
        """Return the rows of the teams in which the actor has the right."""
        found: TeamOwned[Any] = self.model._default_manager.all()  # type: ignore[assignment]
        return found.for_actor(actor, right).select_related("team")

    def find(self, person: Person, text: str, limit: int) -> Iterator[SearchHit]:
        if isinstance(person, User):
            for row in mentioning(self.rows(of_user(person)), text, ("name", "description"))[:limit]:
                yield SearchHit(str(row), self.address(row), self.icon, row.team.name)

    def waiting(self, actor: Actor, in_state: str, *, at_most: int = 20) -> Iterator[InboxEntry]:
        """Rows in this state, for those who may do something about them."""
        badges = next(column.badges for column in self.columns if column.value == "state")
        for row in self.rows(actor, self.right).filter(state=in_state)[:at_most]:
            yield InboxEntry(
                badge=(badges, in_state),
                title=str(row),
                url=self.address(row),
                since=row.created_at,
                why=row.team.name,
            )

    @property
    def listed(self) -> list[ResourceColumn]:
        return [column for column in self.columns if column.is_listed]

    def address(self, row: Model) -> str:
        return f"{self.path}{row.pk}/"

    def _list(self, request: HttpRequest) -> HttpResponse:
        actor = of_request(request)
        stored = {field.name for field in self.model._meta.get_fields()}
        sorts = {
            column.key: column.value.replace(".", "__") if column.key in stored else "name"
            for column in self.columns
        }
        listing = list_page(
            request, self.rows(actor), sorts=sorts, default_sort=self.columns[0].key, filters=self.filters
        )
        lines = [(self.address(row), [column.shown(row) for column in self.listed]) for row in listing.rows]
        context = {"listing": listing, "lines": lines, "may_add": may(actor, self.right)}
        return page(request, "resource/list.html", {"resource": self, **context}, parts=("listing",))

    def _row(self, request: HttpRequest, pk: int) -> HttpResponse:
        actor = of_request(request)
        row = get_object_or_404(self.rows(actor), pk=pk)
        offered = [verb for verb in self.verbs if row.state in verb.states and verb.when(row)]
        context = {
            "row": row,
            "address": self.address(row),
            "facts": [(column.title, column.shown(row)) for column in self.columns[1:]],
            "verbs": offered if may(actor, self.right, row.team) else (),
        }
        return self._shown(request, row, {"resource": self, **context})

    def _shown(self, request: HttpRequest, row: Any, context: dict[str, Any]) -> HttpResponse:
        return page(request, "resource/row.html", context, parts=("facts",))

    def _new(self, request: HttpRequest) -> HttpResponse:
        actor = of_request(request)
        form = self.form(request.POST if request.method == "POST" else None)
        if isinstance(team := form.fields.get("team"), forms.ModelChoiceField):
            team.queryset = teams_where(actor, self.right)
            if len(offered := team.queryset[:2]) == 1:
                team.initial = offered[0]
        if form.is_bound and form.is_valid():
            try:
                row = self.create(actor=actor, **form.cleaned_data)
            except (SlipwayError, ValidationError) as error:
                blame(form, error)
            else:
                return self._created(request, row)
        context = {"resource": self, "form": form, "may_add": may(actor, self.right)}
        status = UNPROCESSABLE if form.is_bound else 200
        return page(request, "resource/new.html", context, status=status)

    def _created(self, request: HttpRequest, row: Any) -> HttpResponse:
        return done(request, _("%(row)s was created.") % {"row": row}, to=self.address(row))

    def _act(self, request: HttpRequest, pk: int, wish: str) -> HttpResponse:
        actor = of_request(request)
        row = get_object_or_404(self.rows(actor), pk=pk)
        verb = next((verb for verb in self.verbs if verb.name == wish), None)
        if verb is None:
            raise Http404
        verb.do(row, actor=actor, reason=reason_of(request, is_demanded=False))
        return done(request, f"{row}: {verb.label}", to=self.path if verb.is_removal else self.address(row))


class NewTeamRowForm(forms.Form):
    """Fields of every new row of a team."""

    name = forms.CharField(max_length=63, label=gettext_lazy("Name"))
    team = forms.ModelChoiceField(Team.objects.none(), label=gettext_lazy("Team"))
    description = forms.CharField(max_length=500, required=False, label=gettext_lazy("Description"))
