"""A hub that takes a team's versions, an approver who may send them there, and workers that do."""

from datetime import timedelta

import pytest

from accounts.actors import of_user
from hubs.models import Export
from hubs.reconcilers.exports import ExportReconciler
from hubs.services import exports
from tests import cast
from tests.crash.harness import Checkpoints, run_until_rest, worker
from tests.hubs.hub_server import hub_server
from tests.models_registry.conftest import do_here

REPO = "acme/tiny"


class Outward:
    """A hub that takes the team's versions, and workers that send them there."""

    def __init__(self, library, server, version, actor) -> None:
        self.library, self.server, self.version, self.actor = library, server, version, actor

    def start(self, **given) -> Export:
        wanted = {"repo_id": REPO, "token": "hf_write", "reason": "They asked for it.", **given}
        return exports.start_export(actor=self.actor, version=self.version, **wanted)

    def worker(self, checkpoints: Checkpoints | None = None, start=do_here):
        return worker([ExportReconciler(self.library.jobs_do(start))], self.library.clock, checkpoints)

    def settle(self) -> None:
        run_until_rest(self.worker(), self.library.clock, tick=timedelta(seconds=4))

    def done(self, export: Export) -> Export:
        self.settle()
        return Export.objects.select_related("version__model__team").get(pk=export.pk)


@pytest.fixture
def bo(db):
    return cast.person("bo", vision="approver")


@pytest.fixture
def outward(library, actor, model, bo, settings, monkeypatch):
    monkeypatch.setattr("hubs.export_targets.PATIENCE_SECONDS", 0.5)
    with hub_server() as server:
        settings.SLIPWAY_EXPORT_ENDPOINTS = (server.url,)
        server.repository(REPO).commit({".gitattributes": b"*.safetensors filter=lfs\n"})
        server.tokens[REPO] = {"hf_write", "hf_read"}
        server.writing.readers = {"hf_read"}
        yield Outward(library, server, library.ready(actor, model), of_user(bo))
