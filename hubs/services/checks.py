"""What the writes of this room check of the words they are given."""

from django.utils.translation import gettext as _

from common.errors import Invalid
from common.sealed import seal
from common.texts import demanded_reason as demanded_reason
from common.texts import name as name
from common.texts import reason as reason
from common.texts import text as text
from models_registry import names

MAX_TOKEN = 500


def repo_id(given: str) -> str:
    """Without surrounding blanks. Raises Invalid."""
    if not names.REPOSITORY.fullmatch(given.strip()):
        raise Invalid(fields={"repo_id": [_("A repository is named org/name, such as acme/tiny.")]})
    return given.strip()


def sealed_token(token: str, *, purpose: str) -> str:
    """See `common.sealed`; empty: none. Raises Invalid."""
    plain = token.strip()
    if len(plain) > MAX_TOKEN or not plain.isascii() or any(character <= " " for character in plain):
        raise Invalid(
            fields={
                "token": [
                    _("A token has at most %(max_token)s visible ASCII characters.")
                    % {"max_token": MAX_TOKEN}
                ]
            }
        )
    return seal(plain, purpose=purpose) if plain else ""
