"""The job that imports a directory; see `job_runner`."""

import sys
from collections.abc import Callable

from model_store.backends.base import Staging
from model_store.processes.job import StagingJob
from model_store.processes.job_runner import work
from models_registry.importing.directory import DirectorySource, import_directory
from models_registry.importing.results import ImportResult
from models_registry.importing.transfer import ImportProgress


def import_job(job: StagingJob, staging: Staging, report: Callable[[ImportProgress], None]) -> ImportResult:
    assert isinstance(job.source, DirectorySource)  # noqa: S101
    return import_directory(job.source, staging, report=report, allowance=job.allowance)


def main(arguments: list[str]) -> int:
    return work(StagingJob.from_json(arguments[0], DirectorySource), import_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
