from dataclasses import dataclass
from typing import Literal, Self

Via = Literal["web", "api", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something: a person in the browser, a token over REST, or Slipway itself."""

    name: str
    user_id: int | None = None
    token_id: int | None = None
    scopes: frozenset[str] | None = None
    """Rights that the token is limited to; None for a session or Slipway itself."""
    address: str = ""
    via: Via = "system"

    @classmethod
    def system(cls, name: str) -> Self:
        return cls(name=name)

    @property
    def is_system(self) -> bool:
        return self.via == "system" and self.user_id is None

    def holds(self, right: str, *, everywhere: bool = False) -> bool:
        """Whether it has the right in some team, or in the whole installation."""
        return self.is_system


NOBODY = Actor(name="anonymous", via="web")
