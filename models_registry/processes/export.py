"""The job that exports a version; see `job_runner`.

What it is to send is in a note of its intake; the token of the hub comes through its standard input.
"""

import json
import sys
from collections.abc import Callable

from models_registry.file_manifest import ManifestFile
from models_registry.hub.elsewhere import ModelElsewhere
from models_registry.hub.handing import hand_version
from models_registry.hub.pushing import push_version
from models_registry.hub.repository import Repository
from models_registry.hub.sending import ExportResult
from models_registry.hub.target import RepositoryTarget, SlipwayTarget
from models_registry.importing.transfer import Progress
from models_registry.processes.job import Job
from models_registry.processes.job_runner import work
from models_registry.store import Intake, opened_at

FILES = "files"
"""Note of the intake: `[path, size, sha256]` of every file that is to be sent."""


def push_job(job: Job, intake: Intake, report: Callable[[Progress], None]) -> ExportResult:
    target = job.source
    assert isinstance(target, RepositoryTarget | SlipwayTarget)  # noqa: S101
    store = opened_at(job.store)
    listed = store.read_note(job.key, FILES)
    if listed is None:
        return ExportResult("failed", reason="Its list of files is gone. Try again.")
    files = [ManifestFile(path, size, sha256) for path, size, sha256 in json.loads(listed)]
    hosts = target.trusted_hosts
    if isinstance(target, SlipwayTarget):
        there = ModelElsewhere(target.endpoint, target.model, token=job.secret, trusted_hosts=hosts)
        return hand_version(target, files, there, intake, report=report)
    repository = Repository(
        target.endpoint, target.repo_id, target.branch, token=job.secret, trusted_hosts=hosts
    )
    return push_version(
        target,
        files,
        repository,
        intake,
        read_note=lambda name: store.read_note(job.key, name),
        report=report,
    )


def main(arguments: list[str]) -> int:
    return work(
        Job.from_json(arguments[0], RepositoryTarget, SlipwayTarget, secret=sys.stdin.read()), push_job
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
