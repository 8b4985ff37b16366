"""Search for workers and deployments by name or service."""

from collections.abc import Iterator

from django.db.models import QuerySet

from accounts.actors import of_user
from accounts.models import User
from clusters.models import Deployment, Worker
from clusters.states import DeploymentState
from common.pages.badges import badge_of
from common.pages.search import Person, SearchHit
from common.words import occurs_in


def find_workers(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    if not isinstance(person, User):
        return
    living = _deployments(person)
    mentioned = occurs_in(("name", "deployment__service"), text)
    rows = Worker.objects.filter(mentioned, deployment__in=living).select_related("deployment")
    for worker in rows.order_by("name")[:limit]:
        detail = f"{worker.deployment.version_label}, {badge_of('worker', worker.state).word}"
        yield SearchHit(worker.name, f"/fleet/workers/{worker.name}/", "cpu", detail)


def find_deployments(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    if not isinstance(person, User):
        return
    mentioned = occurs_in(("name", "service", "version_label"), text)
    for row in _deployments(person).filter(mentioned).order_by("name")[:limit]:
        detail = f"{row.version_label}, {badge_of('deployment', row.state).word}"
        yield SearchHit(row.name, f"/fleet/deployments/{row.name}/", "stack-2", detail)


def _deployments(person: User) -> QuerySet[Deployment]:
    rows = Deployment.objects.for_actor(of_user(person))
    return rows.exclude(state=DeploymentState.REMOVED)
