"""A person tries stable and candidate side by side, at real workers."""

from collections.abc import Iterator

import pytest

from accounts.states import Role
from clusters.models import Worker
from perf.upstream import Upstream
from releases.states import ReleaseState as S
from tests.releases.browsing import as_person
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process, pytest.mark.timeout(60)]
GIVEN = {"path": "/v1/tokens", "body": '{"model": "chat"}'}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    one = Upstream("hello-from-a-worker")
    yield one
    one.kill()


def test_both_sides_answer_side_by_side_and_one_without_a_worker_says_so(
    scene: Scene, upstream: Upstream
) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    workers = Worker.objects.filter(deployment__name=scene.stable)
    workers.update(address="127.0.0.1", port=upstream.port, state="ready")
    Worker.objects.filter(deployment__name=scene.candidate).delete()
    dina = as_person("dina", scene, Role.DEVELOPER)
    page = f"/services/{scene.service.name}/playground/"

    shown = dina.get(page).content.decode()
    answered = dina.post(page, GIVEN).content.decode()

    assert "/v1/chat/completions" in shown
    assert "HTTP 200" in answered
    assert "prompt_tokens" in answered
    assert "No worker is ready." in answered
    assert dina.post(page, {**GIVEN, "body": "[]"}).status_code == 422
    assert dina.post(page, {**GIVEN, "path": "//elsewhere"}).status_code == 422


def test_only_who_may_change_the_service_has_a_playground(scene: Scene) -> None:
    vic = as_person("vic", scene, Role.VIEWER)

    assert vic.get(f"/services/{scene.service.name}/playground/").status_code == 403
