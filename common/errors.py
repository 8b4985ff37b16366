"""What can go wrong, by kind. An app's own errors derive from their kind; doors know the kinds."""

from collections.abc import Mapping, Sequence


class SlipwayError(Exception):
    """Something went wrong in the domain's words: `str(error)` is a sentence that says what to do."""


class Missing(SlipwayError):
    """There is no such thing, or the actor may not know of it."""


class NotAllowed(SlipwayError):
    """The actor lacks the right."""


class Conflict(SlipwayError):
    """The present state of things forbids it."""


class NameTaken(Conflict):
    """Another row has this name already."""


class WrongState(Conflict):
    """The state of the row does not allow this."""


class Stale(SlipwayError):
    """The object was changed by someone else since the actor read it."""


class Unavailable(SlipwayError):
    """A part that is needed does not answer; the same request may succeed later."""

    def __init__(self, message: str, *, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Invalid(SlipwayError):
    """Input that cannot be accepted. `fields` maps dotted field names to sentences."""

    def __init__(self, message: str = "", *, fields: Mapping[str, Sequence[str]] | None = None) -> None:
        self.fields = {name: list(sentences) for name, sentences in (fields or {}).items()}
        super().__init__(message or "; ".join(f"{name}: {' '.join(s)}" for name, s in self.fields.items()))
