"""Pages of keys of clients: list, one of them, a form, and the services that demand one."""

from dataclasses import dataclass

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.resource_pages import NewTeamRowForm, ResourceColumn, ResourceVerb, TeamResource
from accounts.states import Right, TokenState
from common.pages.answers import page
from common.pages.fields import LinesField, lines_input
from common.pages.forms import MomentInput
from gateway.client_access import KEY_HEADER
from gateway.filters import ClientKeyFilter
from gateway.models import ClientKey
from gateway.services.client_keys import IssuedKey, create_key, revoke_key


class NewClientKeyForm(NewTeamRowForm):
    services = LinesField(
        required=False,
        label=gettext_lazy("Services"),
        widget=lines_input("chat"),
        help_text=gettext_lazy("One per line, abilities too. None: all services of the team."),
    )
    requests_per_minute = forms.IntegerField(
        required=False,
        min_value=1,
        label=gettext_lazy("Requests per minute"),
        help_text=gettext_lazy("Empty: no limit."),
    )
    tokens_per_minute = forms.IntegerField(
        required=False,
        min_value=1,
        label=gettext_lazy("Tokens per minute"),
        help_text=gettext_lazy(
            "Of prompts and answers. Counted when an answer ends: they are charged with the next requests."
        ),
    )
    expires_at = forms.DateTimeField(
        required=False,
        label=gettext_lazy("Expires"),
        widget=MomentInput,
        help_text=gettext_lazy("Empty: never."),
    )
    field_order = ("name", "team", "services", "requests_per_minute", "tokens_per_minute", "expires_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKeyPages(TeamResource):
    def _created(self, request: HttpRequest, row: IssuedKey) -> HttpResponse:
        context = {
            "resource": self,
            "key": row.key,
            "secret": row.text,
            "text": _(
                "Clients send it as Authorization: Bearer KEY, or as %(header)s. Slipway keeps only a hash."
            )
            % {"header": KEY_HEADER},
        }
        answer = page(request, "gateway/issued_key.html", context, status=201)
        answer["Cache-Control"] = "no-store"
        return answer


PAGES = ClientKeyPages(
    model=ClientKey,
    noun="client-keys",
    title=gettext_lazy("Client keys"),
    new=gettext_lazy("New client key"),
    about=gettext_lazy(
        "Clients send a key as Authorization: Bearer KEY. "
        "It opens services of a team, with limits on requests and tokens."
    ),
    path="/client-keys/",
    icon="key",
    rank=36,
    right=Right.SERVICES_WRITE,
    filters=ClientKeyFilter,
    form=NewClientKeyForm,
    create=create_key,
    columns=(
        ResourceColumn(gettext_lazy("Name"), "name"),
        ResourceColumn(gettext_lazy("State"), "state", badges="token"),
        ResourceColumn(gettext_lazy("Begins with"), "prefix"),
        ResourceColumn(gettext_lazy("Team"), "team.name"),
        ResourceColumn(gettext_lazy("Services"), "opens"),
        ResourceColumn(gettext_lazy("Requests per minute"), "requests_per_minute"),
        ResourceColumn(gettext_lazy("Tokens per minute"), "tokens_per_minute"),
        ResourceColumn(gettext_lazy("Expires"), "expires_at"),
        ResourceColumn(gettext_lazy("Created"), "created_at"),
    ),
    verbs=(
        ResourceVerb(
            "revoke",
            gettext_lazy("Revoke"),
            "trash",
            revoke_key,
            (TokenState.ACTIVE,),
            tone="bad",
        ),
    ),
)
