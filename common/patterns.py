"""Regular expressions that people give. RE2 matches them in time linear in the text: none can backtrack."""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import re2
from django.utils.translation import gettext as _
from pydantic import AfterValidator, StringConstraints


class BadPattern(ValueError):
    """The text is no regular expression of RE2's syntax."""


@lru_cache(maxsize=256)
def compiled(pattern: str, *, ignores_case: bool = False) -> Any:
    """Return the expression with `search`. Raises BadPattern."""
    options = re2.Options()
    options.case_sensitive, options.log_errors = not ignores_case, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0]
        told = why.decode(errors="replace") if isinstance(why, bytes) else why
        words = _("no regular expression of RE2 (which has no look-around and no back-references): %(error)s")
        raise BadPattern(words % {"error": told}) from None


def hidden(pattern: str, text: str, *, mark: str) -> str:
    """Return the text with the mark in the place of all that the pattern finds."""
    replace: Callable[[Any], str] = lambda _found: mark  # noqa: E731 - a text would be read as a template
    return str(compiled(pattern).sub(replace, text)) if pattern else text


def _checked(pattern: str) -> str:
    compiled(pattern)
    return pattern


Pattern = Annotated[str, StringConstraints(max_length=500), AfterValidator(_checked)]
