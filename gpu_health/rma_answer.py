from django.http import HttpResponse
from django.utils import timezone

from gpu_health.models import Incident
from gpu_health.rma import bundle


def zip_of(incident: Incident) -> HttpResponse:
    """Return the RMA bundle as a download that no cache may keep."""
    name, content = bundle(incident, timezone.now())
    return HttpResponse(
        content,
        content_type="application/zip",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )
