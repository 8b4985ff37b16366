"""What the search box finds of services and releases."""

from collections.abc import Iterator

from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.models import User
from common.pages.badges import badge_of
from common.pages.search import Person, SearchHit
from common.words import occurs_in
from releases.models import Release, Service
from releases.succession import with_succession


def find_services(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    if not isinstance(person, User):
        return
    mentioned = occurs_in(("name", "description", "model__name"), text)
    rows = Service.objects.for_user(person).filter(mentioned).select_related("model").order_by("name")
    for service in rows[:limit]:
        yield SearchHit(service.name, f"/services/{service.name}/", "route", service.model.name)


def find_releases(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    """Newest first; a number is the release of that number."""
    if not isinstance(person, User):
        return
    names = ("service__name", "version__name", "version__model__name", "requester")
    mentioned = occurs_in((*names, "reason"), text) | Q(version__digest__startswith=text)
    number = text.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 10:
        mentioned |= Q(pk=int(number))
    rows = with_succession(Release.objects.for_user(person).filter(mentioned))
    rows = rows.select_related("service", "version__model").only(
        "state", "created_at", "service__name", "version__name", "version__model__name"
    )
    for release in rows.order_by("-pk")[:limit]:
        told = {"release": release.pk, "version": release.version, "service": release.service}
        title = _("#%(release)s %(version)s to %(service)s") % told
        yield SearchHit(
            title, f"/releases/{release.pk}/", "rocket", str(badge_of("release", release.standing).word)
        )
