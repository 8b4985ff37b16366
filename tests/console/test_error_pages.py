import pytest
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template import loader
from django.test import Client
from django.urls import include, path

SECRET = "secret-in-a-local-variable"


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError(f"the database said {SECRET}")


def forbidden(request: HttpRequest) -> HttpResponse:
    raise PermissionDenied("Only an approver of team chat may approve this.")


def bad(request: HttpRequest) -> HttpResponse:
    raise BadRequest(SECRET)


def form(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


urlpatterns = [
    path("broken/", broken),
    path("forbidden/", forbidden),
    path("bad/", bad),
    path("form/", form),
    path("", include("controlplane.urls")),
]


@pytest.fixture
def visitor(settings, db: None) -> Client:
    settings.ROOT_URLCONF = __name__
    return Client(raise_request_exception=False, enforce_csrf_checks=True)


@pytest.mark.parametrize(
    ("where", "status", "words"),
    [
        ("/broken/", 500, "Something broke on our side"),
        ("/bad/", 400, "The server did not understand this request"),
        ("/no/such/page/", 404, "Page not found"),
        ("/forbidden/", 403, "Only an approver of team chat may approve this."),
    ],
)
def test_an_error_page_says_what_to_do(visitor: Client, where: str, status: int, words: str) -> None:
    response = visitor.get(where)
    body = response.content.decode()
    assert response.status_code == status
    assert words in body
    assert "Go to the start page" in body
    assert SECRET not in body
    assert "Traceback" not in body
    assert "default-src 'none'" in response["Content-Security-Policy"]


def test_a_failure_names_the_request_as_the_log_does(visitor: Client) -> None:
    response = visitor.get("/broken/")
    assert f"<code>{response['X-Request-ID']}</code>" in response.content.decode()


def test_a_failure_that_hides_its_request_still_has_a_page() -> None:
    assert "500 · server error</p>" in loader.render_to_string("500.html")


def test_a_form_without_its_token_is_explained(visitor: Client) -> None:
    response = visitor.post("/form/")
    assert response.status_code == 403
    assert "This page is from an earlier sign-in." in response.content.decode()


@pytest.mark.django_db
def test_pages_without_collected_static_files_say_so(settings, tmp_path) -> None:
    collected = {"BACKEND": "common.static_storage.CollectedFiles"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": collected}
    settings.STATIC_ROOT = str(tmp_path)
    answer = Client(raise_request_exception=False).get("/accounts/login/")
    assert answer.status_code == 503
    said = answer.content.decode()
    assert f"There are no static files in {tmp_path}" in said
    assert "slipway-server prepare" in said
