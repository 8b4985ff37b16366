"""What can go wrong in the registry. Every message is a sentence for the person who asked."""

from common.errors import Conflict, Invalid, Missing, SlipwayError


class InvalidName(Invalid):
    """A name of a model, version or alias breaks the rules."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(fields={field: [sentence]})


class SourceNotAllowed(Invalid):
    """The source of an import is of a kind, or in a place, that this server does not read."""

    def __init__(self, sentence: str) -> None:
        super().__init__(fields={"source": [sentence]})
        self.sentence = sentence


class NotInAnImportRoot(SourceNotAllowed):
    """The directory lies outside the import roots."""


class SourceNotThere(SourceNotAllowed):
    """The directory would lie in an import root, and does not exist."""


class InUse(Conflict):
    """The row cannot be deleted: aliases, deployments or other versions still need it."""


class CodeNotAllowed(Conflict):
    """The version carries code, and no exemption of its team lets it be served."""


class SignatureNotTrusted(Conflict):
    """The team requires a signature by a key that it trusts, and the version has none."""


class VersionFrozen(Conflict):
    """A ready version never changes."""


class PreviewOutdated(Conflict):
    """The versions that would be deleted are not those that the actor has seen."""


class FilesRefused(Invalid):
    """Files that somebody wants to upload must not enter the registry, by their names alone."""


class UnknownModel(Missing):
    """There is no such model, or the actor may not see it."""


class UnknownVersion(Missing):
    """The model has no such version."""


class UnknownRule(Missing):
    """The model has no retention rule."""


class Unsigned(Missing):
    """The version has no signature."""


class NoCard(Missing):
    """The version has no model card, or its files are not all there."""


class UnknownAlias(Missing):
    """The model has no such alias."""


class SourceUnreadable(SlipwayError):
    """The source cannot be read: gone, not a directory, no permission, an I/O error."""


class FilesUnderWay(SlipwayError):
    """The version's files are not on this node yet, but are coming."""

    def __init__(self, message: str, *, come_bytes: int, size_bytes: int) -> None:
        super().__init__(message)
        self.come_bytes = come_bytes
        self.size_bytes = size_bytes


class NotFetched(SlipwayError):
    """The version's files cannot be brought to this node; it is tried again."""
