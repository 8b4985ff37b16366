import gzip
import json

import pytest
from django.contrib.auth import get_user_model
from django.contrib.messages import get_messages
from django.contrib.messages.storage.fallback import FallbackStorage
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from common.errors import Invalid, SlipwayError
from common.pages.access import address_of, ask_to_sign_in, signed_in
from common.pages.answers import back, done, page, refusals_at_the_form, refused

pytestmark = pytest.mark.any_database
HTMX = {"HX-Request": "true"}


def request_of(method: str = "GET", path: str = "/releases/12/", **headers: str) -> HttpRequest:
    request = getattr(RequestFactory(), method.lower())(path, headers=headers)
    request.session = {}
    request._messages = FallbackStorage(request)
    return request


def told(request: HttpRequest) -> list[tuple[str, str]]:
    return [(message.message, message.extra_tags) for message in get_messages(request)]


@pytest.fixture
def admin(db: None, client: Client) -> Client:
    client.force_login(get_user_model().objects.create_superuser("ada", password="x" * 12))
    return client


def test_htmx_gets_the_part_that_it_will_replace(admin: Client) -> None:
    part = admin.get("/styleguide/", headers={**HTMX, "HX-Target": "listing"}).content.decode()
    assert part.strip().startswith("<section")
    assert "<html" not in part
    assert part.count('id="listing"') == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"HX-Target": "listing"},
        {**HTMX, "HX-Target": "no-such-part"},
        {**HTMX, "HX-Target": "listing", "HX-History-Restore-Request": "true"},
    ],
)
def test_everybody_else_gets_the_whole_page(admin: Client, headers: dict[str, str]) -> None:
    response = admin.get("/styleguide/", headers=headers)
    assert response.content.decode().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/styleguide/", {}),
        ("/styleguide/", {**HTMX, "HX-Target": "listing"}),
        ("/styleguide/?fields", HTMX),
    ],
)
def test_nobody_is_shown_a_page_from_before_a_change(
    admin: Client, path: str, headers: dict[str, str]
) -> None:
    assert admin.get(path, headers=headers)["Cache-Control"] == "private, no-cache"


def test_caches_keep_pages_and_parts_apart(admin: Client) -> None:
    vary = admin.get("/styleguide/")["Vary"]
    assert "HX-Request" in vary
    assert "HX-Target" in vary


def test_pages_are_compressed_and_answers_of_rest_are_not(admin: Client) -> None:
    accepting = {"Accept-Encoding": "gzip"}
    page, document = admin.get("/", headers=accepting), admin.get("/api/v1/models/", headers=accepting)

    assert gzip.decompress(page.content).startswith(b"<!doctype html>")
    assert page["Content-Encoding"] == "gzip"
    assert len(page.content) * 2 < len(gzip.decompress(page.content))
    assert "Content-Encoding" not in document


def test_done_tells_htmx_in_a_toast() -> None:
    request = request_of("POST", **HTMX)
    response = done(request, "Aborted: “zu spät”")
    assert response.status_code == 204
    assert json.loads(response["HX-Trigger"])["slipway:done"]["text"] == "Aborted: “zu spät”"


def test_done_elsewhere_moves_the_page_and_keeps_the_message() -> None:
    request = request_of("POST", **HTMX)
    response = done(request, "Service created", to="/services/chat/")
    assert (response.status_code, response["HX-Redirect"]) == (204, "/services/chat/")
    assert told(request) == [("Service created", "good")]


def test_done_without_scripts_goes_back_to_the_page() -> None:
    request = request_of("POST", Referer="http://testserver/releases/12/?tab=log")
    response = done(request, "Aborted")
    assert (response.status_code, response["Location"]) == (302, "/releases/12/?tab=log")
    assert told(request) == [("Aborted", "good")]


def test_back_never_leaves_the_console() -> None:
    assert back(request_of(Referer="https://elsewhere.example/releases/"), "/models/") == "/models/"
    assert back(request_of(), "/models/") == "/models/"


def test_a_refusal_answers_the_form_with_words_not_markup() -> None:
    response = refused(request_of("POST", **HTMX), "<b>v3</b> is gone", advice="Take v4.")
    assert response.status_code == 422
    assert response["HX-Slipway-Refused"] == "1"
    assert response["HX-Reselect"] == "unset"
    body = response.content.decode()
    assert "&lt;b&gt;v3&lt;/b&gt; is gone" in body
    assert "Take v4." in body


def test_a_domain_error_is_a_refusal_and_any_other_is_not() -> None:
    class AlreadyPromoted(SlipwayError):
        pass

    @refusals_at_the_form
    def view(request: HttpRequest, error: Exception) -> HttpResponse:
        raise error

    answer = view(
        request_of("POST", **HTMX), AlreadyPromoted("Release 12 is promoted; roll it back instead.")
    )
    assert "Release 12 is promoted; roll it back instead." in answer.content.decode()
    wrong = Invalid(fields={"pem": ["This is no public key."]})
    told = view(request_of("POST", **HTMX), wrong).content.decode()
    assert ("This is no public key." in told, "pem:" in told) == (True, False)
    with pytest.raises(ZeroDivisionError):
        view(request_of("POST", **HTMX), ZeroDivisionError())


def test_a_stranger_is_asked_to_sign_in_and_comes_back_where_he_was() -> None:
    response = ask_to_sign_in(request_of(path="/releases/?state=running"))
    assert response.status_code == 302
    assert response["Location"].endswith("?next=/releases/%3Fstate%3Drunning")


def test_a_part_of_a_page_sends_the_whole_page_to_the_login() -> None:
    request = request_of(path="/part/", **HTMX, **{"HX-Current-URL": "http://testserver/releases/12/?a=1"})
    response = ask_to_sign_in(request)
    assert response.status_code == 401
    assert response["HX-Redirect"].endswith("?next=/releases/12/%3Fa%3D1")


def test_a_foreign_current_url_is_not_believed() -> None:
    request = request_of(path="/part/", **HTMX, **{"HX-Current-URL": "https://elsewhere.example/x"})
    assert address_of(request) == "/part/"


def test_views_are_closed_to_strangers(rf: RequestFactory) -> None:
    from django.contrib.auth.models import AnonymousUser

    @signed_in
    def function(request: HttpRequest) -> HttpResponse:
        return HttpResponse("secret")

    request = rf.get("/")
    request.user = AnonymousUser()
    assert function(request).status_code == 302
    request.user = get_user_model()(username="ada")
    assert function(request).content == b"secret"


def test_the_style_guide_does_not_exist_for_others(db: None, client: Client) -> None:
    assert client.get("/styleguide/").status_code == 404
    client.force_login(get_user_model().objects.create_user("bob", password="x" * 12))
    assert client.get("/styleguide/").status_code == 404


def test_page_takes_a_status(admin: Client, rf: RequestFactory) -> None:
    request = request_of()
    response = page(request, "components/empty.html", {"title": "Nothing", "icon": "inbox"}, status=409)
    assert response.status_code == 409
