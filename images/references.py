"""Names of images as registries know them: a repository, and the digest of what lies there."""

import re
from dataclasses import dataclass

from django.utils.translation import gettext as _

from common.errors import Invalid

MAX_REFERENCE = 500
# github.com/distribution/reference: the grammar of names, of tags and of digests.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::\d{1,5})?/)?"
_REPOSITORY = re.compile(rf"{_HOST}{_PART}(?:/{_PART})*")
_TAG = re.compile(r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ImageReference:
    repository: str
    digest: str
    """`sha256:` and 64 hexadecimal digits."""

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}"


def reference_of(text: str, *, field: str = "reference") -> ImageReference:
    """`registry/repository@sha256:...`; a tag beside the digest is left away. Raises Invalid.

    A tag alone is refused: whoever may push can move it, and a release would not be what was approved.
    """
    text = text.strip()
    name, at, digest = text.partition("@")
    repository = _TAG.sub("", name)
    if not at:
        raise Invalid(
            fields={
                field: [
                    _(
                        "A tag can be moved to other content: give the digest as well, "
                        "REPOSITORY@sha256:..., as `crane digest %(tag)s` prints it."
                    )
                    % {"tag": text or "REPOSITORY:TAG"}
                ]
            }
        )
    if not _DIGEST.fullmatch(digest):
        raise Invalid(
            fields={field: [_("After the @ stands sha256: and 64 hexadecimal digits in lower case.")]}
        )
    return ImageReference(repository_of(repository, field=field), digest)


def repository_of(text: str, *, field: str) -> str:
    """Raises Invalid."""
    if len(text) > MAX_REFERENCE or not _REPOSITORY.fullmatch(text):
        raise Invalid(
            fields={
                field: [
                    _(
                        "'%(text)s' is no repository: give one such as registry.example.org/team/vllm, in "
                        "lower case and without a scheme."
                    )
                    % {"text": text[:80]}
                ]
            }
        )
    return text
