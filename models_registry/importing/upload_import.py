"""The job that makes a version of an upload; see `job_runner`."""

import sys
from collections.abc import Callable

from model_store.backends.base import Staging
from model_store.processes.job import StagingJob
from model_store.processes.job_runner import work
from models_registry.importing.results import ImportResult
from models_registry.importing.transfer import ImportProgress
from models_registry.importing.upload import UploadSource, take_upload


def receive_job(job: StagingJob, staging: Staging, report: Callable[[ImportProgress], None]) -> ImportResult:
    assert isinstance(job.source, UploadSource)  # noqa: S101
    return take_upload(job.store, job.source, staging, report=report)


def main(arguments: list[str]) -> int:
    return work(StagingJob.from_json(arguments[0], UploadSource), receive_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
