from typing import ClassVar

from common.jobs.rows import RunsJob


class Launched(RunsJob):
    """What is done by a job in an intake of the store."""

    INTAKE: ClassVar[str]
    """What its intake's key begins with, before its id."""

    class Meta:
        abstract = True

    @property
    def intake_key(self) -> str:
        return f"{self.INTAKE}{self.pk}"
