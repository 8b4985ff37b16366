"""Which names models, versions, aliases and the files inside a version may carry."""

import re
import unicodedata

from django.utils.translation import gettext as _

from common.texts import HIDDEN_CATEGORIES
from models_registry.errors import InvalidName, Refused

MODEL_PATTERN = r"[a-z0-9][a-z0-9._-]{0,94}"
ALIAS_PATTERN = r"[a-z0-9][a-z0-9._-]{0,62}"
TAG_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:=/+-]{0,62}"
VERSION_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,94}"
NUMBER = re.compile(r"v([1-9][0-9]{0,5})")
DIGEST_PREFIX = re.compile(r"[0-9a-f]{12,64}")

_REPOSITORY_PART = r"[A-Za-z0-9](?!.*(?:--|\.\.))[A-Za-z0-9._-]{0,95}"
REPOSITORY = re.compile(rf"{_REPOSITORY_PART}(?:/{_REPOSITORY_PART})?")
"""As Hugging Face has it: https://huggingface.co/docs/hub/repositories, `org/name` or, of old, `name`."""
REVISION = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}")

MAX_PATH_BYTES = 1_024
MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 32


def check_model_name(name: str) -> str:
    """`name`, or InvalidName."""
    if not re.fullmatch(MODEL_PATTERN, name):
        raise InvalidName(
            _("name"),
            _(
                "A model's name has 1 to 95 characters of a-z, 0-9, '.', '_' and '-', and starts "
                "with a letter or digit."
            ),
        )
    return name


def check_alias_name(name: str) -> str:
    """`name`, or InvalidName. An alias never looks like a version, so that `model:name` means one thing."""
    if not re.fullmatch(ALIAS_PATTERN, name):
        raise InvalidName(
            _("alias"),
            _(
                "An alias has 1 to 63 characters of a-z, 0-9, '.', '_' and '-', and starts with a "
                "letter or digit."
            ),
        )
    if NUMBER.fullmatch(name) or DIGEST_PREFIX.fullmatch(name):
        raise InvalidName(
            _("alias"),
            _("'%(name)s' reads like a version; choose another alias, such as 'production'.")
            % {"name": name},
        )
    return name


def check_version_name(name: str) -> str:
    """`name`, or InvalidName; `v7` is allowed here and asks for that number."""
    if not re.fullmatch(VERSION_PATTERN, name):
        raise InvalidName(
            _("version"),
            _(
                "A version's name has 1 to 95 characters of letters, digits, '.', '_', '+' and '-', "
                "and starts with a letter or digit."
            ),
        )
    if DIGEST_PREFIX.fullmatch(name):
        raise InvalidName(
            _("version"), _("'%(name)s' reads like a digest; choose another name.") % {"name": name}
        )
    if re.fullmatch(r"[vV][0-9]+", name) and not NUMBER.fullmatch(name):
        raise InvalidName(
            _("version"),
            _("'%(name)s' reads like a version number; those are v1 to v999999.") % {"name": name},
        )
    return name


def check_tag(name: str) -> str:
    """`name`, or InvalidName."""
    if not re.fullmatch(TAG_PATTERN, name):
        raise InvalidName(
            _("add"),
            _(
                "'%(name80)s' is no tag: one has 1 to 63 characters of letters, digits, '.', '_', "
                "':', '=', '/', '+' and '-', and starts with a letter or digit."
            )
            % {"name80": name[:80]},
        )
    return name


def printable(name: str | bytes) -> str:
    """A file name that can be shown: undecodable bytes and control characters as escapes."""
    text = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    decoded = text.decode("utf-8", "backslashreplace")
    return "".join(
        c if unicodedata.category(c) not in HIDDEN_CATEGORIES else f"\\u{ord(c):04x}" for c in decoded
    )


def check_file_path(path: str) -> str:
    """`path`, relative, with '/' between its parts, as stored in a version; or Refused with the reason.

    What passes can be created as it is on Linux, macOS and Windows, and shows as what it is.
    """
    shown = printable(path)[:200]
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(shown, _("its name is not valid UTF-8")) from None
    if not path:
        raise Refused(_("(empty)"), _("a file needs a name"))
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        raise Refused(shown, _("its path is absolute; only paths inside the version are allowed"))
    if len(encoded) > MAX_PATH_BYTES:
        raise Refused(
            shown, _("its path is longer than %(max_path_bytes)s bytes") % {"max_path_bytes": MAX_PATH_BYTES}
        )
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        raise Refused(shown, _("it lies more than %(max_depth)s directories deep") % {"max_depth": MAX_DEPTH})
    for part in parts:
        _check_component(part, shown)
    return path


def _check_component(part: str, shown: str) -> None:
    if part in ("", ".", ".."):
        raise Refused(shown, _("its path has an empty, '.' or '..' part"))
    if len(part.encode()) > MAX_COMPONENT_BYTES:
        raise Refused(
            shown,
            _("a part of its path is longer than %(max_component_bytes)s bytes")
            % {"max_component_bytes": MAX_COMPONENT_BYTES},
        )
    if any(unicodedata.category(character) in HIDDEN_CATEGORIES for character in part):
        raise Refused(shown, _("its name has control, invisible or text-reordering characters"))
    if "\\" in part:
        raise Refused(shown, _("its name has a backslash, which is a directory separator elsewhere"))
    if any(character in '<>:"|?*' for character in part):
        raise Refused(shown, _('its name has one of < > : " | ? *, which other systems cannot store'))
    if part != part.strip() or part.endswith("."):
        raise Refused(shown, _("its name begins or ends with a space, or ends with a dot"))
    if unicodedata.normalize("NFC", part) != part:
        raise Refused(shown, _("its name is not in Unicode's composed form (NFC)"))


def collision_key(path: str) -> str:
    """Two paths with the same key would be one file on a file system that ignores case."""
    return unicodedata.normalize("NFC", path.casefold())
