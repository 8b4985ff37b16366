"""What the search box finds of services and releases."""

from collections.abc import Iterator

from django.db.models import Q

from accounts.models import User
from common.pages.looks import look
from common.pages.search import Hit, Person
from releases.models import Release, Service


def find_services(person: Person, text: str, limit: int) -> Iterator[Hit]:
    if not isinstance(person, User):
        return
    mentioned = Q(name__icontains=text) | Q(description__icontains=text) | Q(model__name__icontains=text)
    rows = Service.objects.for_user(person).filter(mentioned).select_related("model").order_by("name")
    for service in rows[:limit]:
        yield Hit(service.name, f"/services/{service.name}/", "route", service.model.name)


def find_releases(person: Person, text: str, limit: int) -> Iterator[Hit]:
    """Newest first; a number is the release of that number."""
    if not isinstance(person, User):
        return
    mentioned = (
        Q(service__name__icontains=text)
        | Q(version__name__icontains=text)
        | Q(version__model__name__icontains=text)
        | Q(version__digest__startswith=text)
        | Q(reason__icontains=text)
        | Q(requester__icontains=text)
    )
    number = text.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 10:
        mentioned |= Q(pk=int(number))
    rows = Release.objects.for_user(person).filter(mentioned).select_related("service", "version__model")
    rows = rows.only("state", "created_at", "service__name", "version__name", "version__model__name")
    for release in rows.order_by("-pk")[:limit]:
        title = f"#{release.pk} {release.version} to {release.service}"
        yield Hit(title, f"/releases/{release.pk}/", "rocket", look("release", release.state).word)
