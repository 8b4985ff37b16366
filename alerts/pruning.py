from datetime import datetime

from django.db.models import QuerySet

from alerts.models import RaisedAlert
from alerts.states import AlertState


def resolved_before(before: datetime) -> QuerySet[RaisedAlert]:
    return RaisedAlert.objects.filter(state=AlertState.RESOLVED, resolved_at__lt=before).order_by("pk")
