"""The job that fetches a version from a hub; see `job_runner`.

The token of the hub comes through its standard input.
"""

import sys
from collections.abc import Callable

from hubs.backends.kinds import hub_at
from hubs.download import fetch_repository
from hubs.source import RepositorySource
from model_store.backends.base import Staging
from model_store.processes.job import StagingJob
from model_store.processes.job_runner import work
from models_registry.importing.results import ImportResult
from models_registry.importing.transfer import ImportProgress


def fetch_job(job: StagingJob, staging: Staging, report: Callable[[ImportProgress], None]) -> ImportResult:
    source = job.source
    assert isinstance(source, RepositorySource)  # noqa: S101
    hub = hub_at(source.endpoint, kind=source.kind, token=job.secret, trusted_hosts=source.trusted_hosts)
    return fetch_repository(source, hub, staging, report=report, allowance=job.allowance)


def main(arguments: list[str]) -> int:
    return work(StagingJob.from_json(arguments[0], RepositorySource, secret=sys.stdin.read()), fetch_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
