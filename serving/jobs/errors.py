"""What can go wrong with a queue of jobs."""


class JobError(Exception):
    """Words for whoever asked."""


class QueueUnreachable(JobError):
    """The store of jobs does not answer: try again."""


class QueueFull(JobError):
    """The queue is full: as many jobs wait as may."""


class JobMissing(JobError):
    """There is no such job, or it is forgotten by now."""


class JobConflict(JobError):
    """The job is not in a state for this, or the key belongs to another request."""


class JobLeaseLost(JobError):
    """Another worker has the job by now, or nobody: what this one did of it does not count."""
