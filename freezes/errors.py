from django.utils.translation import gettext_noop as _

from common.api import problems
from common.errors import Conflict, Invalid


class InvalidFreeze(Invalid):
    """A freeze contradicts itself or cannot be understood; `fields` says where."""


class Frozen(Conflict):
    """A freeze forbids it now."""


problems.register(Frozen, status=409, title=_("Frozen"), slug="frozen")
