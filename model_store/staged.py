from typing import ClassVar

from common.jobs.rows import RunsJob


class Launched(RunsJob):
    """A row whose work is a job in a staging area of the store."""

    STAGING: ClassVar[str]
    """What its staging area's key begins with, before its id."""

    class Meta:
        abstract = True

    @property
    def staging_key(self) -> str:
        return f"{self.STAGING}{self.pk}"
