"""Named reads of service level objectives."""

from accounts.states import Right
from common.actor import Actor
from objectives.models import ServiceObjective, ServiceObjectiveRows
from releases.models import Service


def objectives_for(actor: Actor, right: Right = Right.READ) -> ServiceObjectiveRows:
    return ServiceObjective.objects.for_actor(actor, right).select_related("team", "service")


def objectives_of(service: Service) -> list[ServiceObjective]:
    return list(ServiceObjective.objects.filter(service=service).order_by("name"))
