"""Jobs as people and programs meet them: rows that follow the queue in Redis, and what a release does."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from common.job_queue import ask_queue
from common.reconcile import kernel
from jobs.models import JobMirror, ServiceJob
from jobs.selectors import has_own_jobs
from releases.models import Service
from serving.jobs.job import JobPolicy, QueuedJob
from serving.jobs.queue import JobQueue
from serving.jobs.store import Pool
from tests.accounts.rights_matrix.scene import Scene
from tests.cast import api, client_of, person
from tests.valkey import ValkeyServer

pytestmark = [pytest.mark.django_db, pytest.mark.process]
Answer = TypeVar("Answer")


@pytest.fixture
def service(valkey: ValkeyServer, settings: Any) -> Service:
    settings.SLIPWAY_JOBS_URL = valkey.url
    Path(settings.SLIPWAY_IMPORT_ROOTS[0]).mkdir(parents=True, exist_ok=True)
    return Scene("speech", person("ada")).service


def ask(question: Callable[[JobQueue], Awaitable[Answer]]) -> Answer:
    return ask_queue(lambda queue, _: question(queue))


def submit(service: Service, target: str = "", **policy: object) -> QueuedJob:
    target = target or service.stable_deployment
    return ask(
        lambda queue: queue.submit(
            service=service.name,
            target=target,
            version="m:1",
            path="/render",
            query="",
            headers={},
            body=b"{}",
            policy=JobPolicy(**policy),  # type: ignore[arg-type]
        )
    )


def fail(pool: Pool) -> None:
    async def taken(queue: JobQueue) -> None:
        job = await queue.take(pool, worker="w-0")
        assert job is not None
        await queue.finish(
            job,
            status=422,
            result_type="application/problem+json",
            result=b'{"title": "No paint", "detail": "Buy some."}',
        )

    ask(taken)


def follow() -> None:
    JobMirror.objects.update(next_at="2020-01-01T00:00:00Z")
    kernel.sweep()


def test_a_job_is_listed_read_cancelled_and_retried(service: Service) -> None:
    job = submit(service)
    follow()
    dina = person("dina", speech="developer")
    rest, browser = api(dina), client_of(dina)
    listed = rest.get(f"jobs/?service={service.name}&state=queued").json()["results"]
    assert [(one["id"], one["path"]) for one in listed] == [(job.id, "/render")]
    assert rest.get(f"jobs/{job.id}/result/").status_code == 409
    assert rest.post(f"jobs/{job.id}/cancel/", {}).json()["state"] == "cancelled"
    page = f"/jobs/{ServiceJob.objects.get().pk}/"
    assert page in browser.get("/jobs/").content.decode()
    assert f"{page}+retry/" in browser.get(page).content.decode()
    browser.post(f"{page}+retry/", {"reason": "Again."})
    assert ask(lambda queue: queue.get(job.id)).state == "queued"
    fail((service.name, service.stable_deployment))
    follow()
    failed = rest.get(f"jobs/{job.id}/").json()
    assert (failed["state"], failed["status"], failed["error"]) == ("failed", 422, "No paint: Buy some.")
    assert rest.get(f"jobs/{job.id}/result/").json()["title"] == "No paint"


def test_who_may_not_see_the_service_sees_no_job(service: Service) -> None:
    job = submit(service)
    follow()
    assert api(person("eve", other="admin")).get(f"jobs/{job.id}/").status_code == 404


def test_what_waits_for_a_version_that_was_released_away_goes_on_or_fails(service: Service) -> None:
    follows, stays = submit(service, target="gone-1"), submit(service, target="gone-1", on_release="same")
    follow()
    moved = ask(lambda queue: queue.get(follows.id))
    assert (moved.target, moved.version) == (service.stable_deployment, str(service.stable_version))
    # Nobody is left who could do it.
    assert ask(lambda queue: queue.get(stays.id)).status == 410


def test_workers_are_held_for_jobs_that_want_their_version(service: Service) -> None:
    submit(service)
    follow()
    assert not has_own_jobs(service.stable_deployment)
    submit(service, on_release="same")
    follow()
    assert has_own_jobs(service.stable_deployment)
    fail((service.name, service.stable_deployment))
    fail((service.name, service.stable_deployment))
    follow()
    assert not has_own_jobs(service.stable_deployment)


def test_a_redis_that_begins_anew_is_followed_from_its_beginning(service: Service) -> None:
    for _ in range(3):
        submit(service)
    follow()
    ask_queue(lambda _, store: store._client.flushall())
    again = submit(service)
    follow()
    assert ServiceJob.objects.filter(name=again.id).exists()


def test_a_queue_that_is_gone_is_said_to_be(service: Service, valkey: ValkeyServer) -> None:
    job = submit(service)
    follow()
    valkey.stop()
    answer = api(person("dina", speech="developer")).post(f"jobs/{job.id}/cancel/", {})
    assert answer.status_code == 503
    follow()
    assert JobMirror.objects.get().stuck_at is None
