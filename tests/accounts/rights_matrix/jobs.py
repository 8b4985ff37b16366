from django.utils import timezone

from accounts.states import Right
from jobs.models import ServiceJob
from tests.accounts.rights_matrix.scene import Access, Route, Scene


def _row(scene: Scene) -> dict[str, str]:
    job, _ = ServiceJob.objects.get_or_create(
        name="1" * 32,
        team=scene.team,
        defaults={"service": scene.service, "state": "running", "deadline": timezone.now()},
    )
    return {"job": job.name}


ROUTES = [
    Route("GET", "jobs/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "jobs/",
        Right.JOBS_WRITE,
        body=lambda scene: {"service": scene.service.name, "path": "render"},
        status=400,
    ),
    Route("GET", "jobs/{job}/", Right.READ, fill=_row),
    Route("GET", "jobs/{job}/result/", Right.READ, fill=_row, status=409),
    Route("POST", "jobs/{job}/cancel/", Right.JOBS_WRITE, fill=_row, status=503),
    Route("POST", "jobs/{job}/retry/", Right.JOBS_WRITE, fill=_row, status=503),
]
