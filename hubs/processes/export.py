"""The job that exports a version; see `job_runner`.

What it is to send is in a note of its staging area; the token of the hub comes through its standard input.
"""

import json
import sys
from collections.abc import Callable

from hubs.backends.repository import Repository
from hubs.backends.slipway_client import SlipwayClient
from hubs.export_result import ExportResult
from hubs.push import push_version
from hubs.slipway_export import export_to_slipway
from hubs.target import RepositoryTarget, SlipwayTarget
from model_store.backends.base import Staging
from model_store.backends.opening import opened_at
from model_store.file_manifest import ManifestFile
from model_store.processes.job import StagingJob
from model_store.processes.job_runner import work
from models_registry.importing.transfer import ImportProgress

FILES = "files"
"""Note of the staging area: `[path, size, sha256]` of every file that is to be sent."""


def push_job(job: StagingJob, staging: Staging, report: Callable[[ImportProgress], None]) -> ExportResult:
    target = job.source
    assert isinstance(target, RepositoryTarget | SlipwayTarget)  # noqa: S101
    store = opened_at(job.store)
    listed = store.read_note(job.key, FILES)
    if listed is None:
        return ExportResult("failed", reason="Its list of files is gone. Try again.")
    files = [ManifestFile(path, size, sha256) for path, size, sha256 in json.loads(listed)]
    hosts = target.trusted_hosts
    if isinstance(target, SlipwayTarget):
        there = SlipwayClient(target.endpoint, target.model, token=job.secret, trusted_hosts=hosts)
        return export_to_slipway(target, files, there, staging, report=report)
    repository = Repository(
        target.endpoint, target.repo_id, target.branch, token=job.secret, trusted_hosts=hosts
    )
    return push_version(
        target,
        files,
        repository,
        staging,
        read_note=lambda name: store.read_note(job.key, name),
        report=report,
    )


def main(arguments: list[str]) -> int:
    return work(
        StagingJob.from_json(arguments[0], RepositoryTarget, SlipwayTarget, secret=sys.stdin.read()), push_job
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
