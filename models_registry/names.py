"""Which names models, versions, aliases and tags may carry."""

import re

from django.utils.translation import gettext as _

from models_registry.errors import InvalidName

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
