"""A store, an import root with a model in it, a hub, and a team that owns models."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from hypothesis import settings

from accounts.actors import of_user
from accounts.models import User
from common.actor import Actor
from common.errors import Conflict
from common.jobs.runners.base import JobRunner
from common.jobs.runners.fake import FakeRunner, Program
from common.jobs.spec import JobSpec
from common.reconcile import Kernel
from hubs.models import HubSource, HubSync
from hubs.processes.export import push_job
from hubs.processes.hub_download import fetch_job
from hubs.reconcilers.syncs import HubSourceReconciler, HubSyncReconciler
from hubs.services import syncs
from hubs.source import RepositorySource
from hubs.target import RepositoryTarget, SlipwayTarget
from model_store.backends.local import LocalStore
from model_store.backends.opening import opened_at
from model_store.file_manifest import ManifestFile
from model_store.models import Collection
from model_store.processes.job import StagingJob, WholeStore
from model_store.processes.job_runner import Work
from model_store.processes.store_scrub import check_job
from model_store.reconcilers.collections import CollectionReconciler
from model_store.services import begin_collection
from models_registry import references as uses
from models_registry.importing import facts_backfill
from models_registry.importing.directory import DirectorySource
from models_registry.importing.directory_import import import_job
from models_registry.importing.upload import UploadSource
from models_registry.importing.upload_import import receive_job
from models_registry.models import Model, Version
from models_registry.reconcilers.retention import RetentionReconciler
from models_registry.reconcilers.uploads import UploadReconciler
from models_registry.reconcilers.versions import VersionReconciler
from models_registry.services import catalogue, imports
from tests import cast
from tests.crash.harness import Checkpoints, Clock, run_until_rest, worker
from tests.hubs.hub_server import HubServer, hub_server
from tests.models_registry import builders as b
from tests.models_registry.real_jobs import RealJobs

REPO = "acme/tiny"


WORK: dict[type, Work] = {
    DirectorySource: import_job,
    RepositorySource: fetch_job,
    RepositoryTarget: push_job,
    SlipwayTarget: push_job,
    UploadSource: receive_job,
    WholeStore: check_job,
}


def do_here(job: StagingJob) -> dict[str, Any]:
    """Do a job's work in this process; return its result."""
    with opened_at(job.store).staging(job.key) as staging:
        done = WORK[type(job.source)](job, staging, lambda progress: None)
    return json.loads(json.dumps(done.as_json()))


Start = Callable[[StagingJob], Any]
"""Stands for the process: its result; anything but a dict: it has died."""


def job_of(spec: JobSpec) -> StagingJob:
    return StagingJob.from_json(spec.argv[-1], *WORK, secret=spec.stdin.decode())


def programmed(start: Start) -> Program:
    def program(spec: JobSpec) -> dict[str, Any] | None:
        if spec.argv[2] == facts_backfill.__name__:
            listed = [ManifestFile(**file) for file in json.loads(spec.stdin)]
            return facts_backfill.read_facts(spec.argv[-1], listed)
        done = start(job_of(spec))
        return done if isinstance(done, dict) else None

    return program


@dataclass
class Library:
    """A registry with its store and its workers; `root` holds directories to import."""

    root: Path
    home: Path
    clock: Clock = field(default_factory=Clock)
    runner: JobRunner = field(default_factory=lambda: FakeRunner(programmed(do_here)))

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.home / "models")

    def jobs_do(self, start: Start | None) -> FakeRunner:
        """Set what jobs do from now on; None: they go on until a test ends them."""
        assert isinstance(self.runner, FakeRunner)
        self.runner.program = programmed(start) if start else None
        return self.runner

    def worker(self, checkpoints: Checkpoints | None = None) -> Kernel:
        return worker([VersionReconciler(self.runner), UploadReconciler()], self.clock, checkpoints)

    def settle(self) -> None:
        """Sweep until every version is at rest."""
        run_until_rest(self.worker(), self.clock, tick=timedelta(seconds=4))

    def push(self, api: cast.Api, directory: Path, model: str = "tiny", **body: object) -> dict:
        """Import a directory over REST; what REST then says of the version."""
        answer = api.post(f"models/{model}/versions/", {"source": str(directory), **body})
        assert answer.status_code == 202, answer.json()
        self.settle()
        return api.get(f"models/{model}/versions/{answer.json()['name']}/").json()

    def retain(self) -> None:
        """Let retention rules act until they are at rest."""
        run_until_rest(worker([RetentionReconciler()], self.clock), self.clock)

    def collect(self, *, grace_seconds: int = 0, checkpoints: Checkpoints | None = None) -> Collection:
        """Begin a collection and see it through, unless a checkpoint ends the worker."""
        begun = begin_collection(actor=Actor.system("test"), grace_seconds=grace_seconds)
        return self.collected(begun, checkpoints)

    def collected(self, begun: Collection, checkpoints: Checkpoints | None = None) -> Collection:
        kernel = worker([CollectionReconciler()], self.clock, checkpoints)
        run_until_rest(kernel, self.clock, tick=timedelta(seconds=4))
        return Collection.objects.get(pk=begun.pk)

    def directory(self, name: str = "model", fill: bytes = b"\x01") -> Path:
        return b.model_directory(self.root / name, fill)

    def ready(
        self, actor: Actor, model: Model, name: str = "model", fill: bytes = b"\x01", **options
    ) -> Version:
        version = imports.import_version(
            actor=actor, model=model, source=str(self.directory(name, fill)), **options
        )
        self.settle()
        version = Version.objects.get(pk=version.pk)
        assert version.state == "ready", version.reason
        return version

    def stored(self) -> set[str]:
        """Names of all files in the store, apart from locks."""
        found = self.store.root.rglob("*")
        return {path.name for path in found if path.is_file() and path.parent.name != "locks"}


settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _registry_alone(monkeypatch) -> None:
    """Without the apps above, which tell where versions are in use, each with rows of its own."""
    monkeypatch.setattr(uses, "_uses", [])
    monkeypatch.setattr(uses, "_fallbacks", [])


@pytest.fixture
def library(tmp_path: Path, settings) -> Library:
    root = tmp_path / "roots"
    root.mkdir()
    settings.SLIPWAY_IMPORT_ROOTS = (root,)
    settings.SLIPWAY_STORE_DIR = tmp_path / "home/models"
    settings.SLIPWAY_LOG_DIR = tmp_path / "home/logs"
    settings.SLIPWAY_JOBS_DIR = tmp_path / "home/jobs"
    return Library(root, tmp_path / "home")


@pytest.fixture
def ada(db) -> User:
    return cast.person("ada", vision="developer")


@pytest.fixture
def actor(ada: User) -> Actor:
    return of_user(ada)


@pytest.fixture
def model(actor: Actor) -> Model:
    return catalogue.create_model(actor=actor, team=cast.team("vision"), name="tiny", task="text-generation")


class Hubs:
    """A hub with one repository, and workers that sync it."""

    def __init__(self, library, server: HubServer) -> None:
        self.library, self.server = library, server

    def worker(self, checkpoints: Checkpoints | None = None, start=do_here) -> Kernel:
        runner = self.library.jobs_do(start)
        reconcilers = [VersionReconciler(runner), HubSyncReconciler(), HubSourceReconciler()]
        return worker(reconcilers, self.library.clock, checkpoints)

    def settle(self) -> None:
        run_until_rest(self.worker(), self.library.clock, tick=timedelta(seconds=4))

    def sweep(self, times: int = 4) -> None:
        for _ in range(times):
            self.worker().sweep()
            self.library.clock.pass_(timedelta(seconds=12))

    def synced(self, source: HubSource, actor) -> HubSync:
        sync = syncs.start_sync(actor=actor, source=source)
        self.settle()
        return HubSync.objects.get(pk=sync.pk)


@pytest.fixture
def hubs(library, settings, monkeypatch) -> Iterator[Hubs]:
    monkeypatch.setattr("hubs.import_source.PATIENCE_SECONDS", 1)
    with hub_server() as server:
        settings.SLIPWAY_HUB_ENDPOINTS = (server.url,)
        server.repository(REPO).commit(b.model_files())
        yield Hubs(library, server)


@pytest.fixture
def source(hubs, actor, model) -> HubSource:
    return syncs.create_hub_source(actor=actor, model=model, repo_id=REPO)


class Chat:
    """A service above the registry: notes what is released to it, unless it is busy."""

    def __init__(self) -> None:
        self.released: list[tuple[str, str, str]] = []
        self.is_busy = False

    def services(self, actor, model) -> list[str]:
        return ["chat"]

    def plans(self, actor, model) -> list[str]:
        return ["canary", "direct"]

    def check(self, actor, model, *, service, plan) -> None:
        pass

    def release(self, actor, version, *, service, plan, reason) -> str:
        if self.is_busy:
            raise Conflict("chat has a release in motion already.")
        self.released.append((actor.name, str(version), plan))
        return f"release {len(self.released)} of {service}"


@pytest.fixture
def chat(monkeypatch) -> Chat:
    service = Chat()
    monkeypatch.setattr("hubs.auto_release._registered", [service])
    return service


@pytest.fixture
def version(library: Library, actor: Actor, model: Model) -> Version:
    return library.ready(actor, model)


@pytest.fixture
def api(ada: User) -> cast.Api:
    return cast.api(ada)


@pytest.fixture
def browser(ada: User) -> Client:
    client = Client()
    client.force_login(ada)
    return client


@pytest.fixture
def admin(db) -> Actor:
    """An admin of the team."""
    return of_user(cast.person("cleo", vision="admin"))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A store by itself, without a library."""
    return LocalStore(tmp_path / "store")


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[RealJobs]:
    jobs = RealJobs(tmp_path / "jobs")
    yield jobs
    jobs.stop()
