"""The page with the form of a new team, person, token or webhook."""

from dataclasses import dataclass
from typing import Any

from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.utils.functional import Promise

from common.pages.answers import UNPROCESSABLE, page


@dataclass(frozen=True, slots=True)
class NewPage:
    title: str | Promise
    room: str | Promise
    """The list below Settings in which it will stand."""
    room_url: str
    submit: str | Promise
    """What the button says."""
    who: str | Promise = ""
    """Who may, for those who may not."""
    template: str = "accounts/new.html"

    def with_form(self, request: HttpRequest, form: BaseForm, *, is_open: bool = True) -> HttpResponse:
        """Empty, or with what is wrong in what was sent. Unless it `is_open`, who may instead of a form."""
        if not is_open:
            return page(request, "accounts/new_closed.html", self._words(), status=403)
        status = UNPROCESSABLE if form.is_bound else 200
        return page(request, self.template, self._words() | {"form": form}, status=status)

    def _words(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("title", "room", "room_url", "submit", "who")}
