"""The room that a team has left, as an import's process gets it. No Django in here."""

from dataclasses import dataclass

from model_store.errors import StorageQuotaExceeded


@dataclass(frozen=True, slots=True)
class Allowance:
    """A team's quota and what counts against it, in bytes."""

    team: str
    limit_bytes: int
    used_bytes: int

    def check(self, new_bytes: int) -> None:
        """Raises StorageQuotaExceeded. What adds nothing always fits."""
        if new_bytes and self.used_bytes + new_bytes > self.limit_bytes:
            raise StorageQuotaExceeded(
                team=self.team,
                new_bytes=new_bytes,
                used_bytes=self.used_bytes,
                limit_bytes=self.limit_bytes,
            )
