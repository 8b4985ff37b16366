"""The page with the form of a new team, person, token or webhook."""

from dataclasses import asdict, dataclass

from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse

from common.pages.answers import UNPROCESSABLE, page


@dataclass(frozen=True, slots=True)
class NewPage:
    title: str
    room: str
    """The list below Settings in which it will stand."""
    room_url: str
    submit: str
    """What the button says."""
    who: str = ""
    """Who may, for those who may not."""

    def with_form(self, request: HttpRequest, form: BaseForm, *, is_open: bool = True) -> HttpResponse:
        """Empty, or with what is wrong in what was sent; unless it `is_open`, it says so."""
        status = UNPROCESSABLE if form.is_bound else 200
        context = asdict(self) | {"form": form, "is_open": is_open}
        return page(request, "accounts/new.html", context, status=status)
