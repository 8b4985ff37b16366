"""One document of a file: the kind of an object, what identifies it, and the fields that it sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from django.utils.translation import gettext as _

from common.api.problems import BODY
from common.configuration import ConfigurationKind, kinds
from configuration.errors import ConfigurationRefused


@dataclass(frozen=True, slots=True)
class WantedDocument:
    kind: ConfigurationKind
    name: str
    team: str
    """Empty: none is named, or it is of all teams."""
    spec: Mapping[str, Any]

    @classmethod
    def read(cls, given: Mapping[str, Any], *, team: str) -> Self:
        """`team`: owner of what names none; null means all teams. Raises ConfigurationRefused."""
        kind = kinds().get(given["kind"])
        if kind is None:
            known = ", ".join(kinds())
            raise _refused("kind", _("There is no such kind. Known: %(known)s.") % {"known": known})
        owner = given.get("team", team) or ""
        name = owner if kind.named_by == "team" else given.get("name", "")
        if not name:
            raise _refused(kind.named_by, _("Say which object it is."))
        return cls(kind, name, owner, given["spec"])

    @property
    def key(self) -> dict[str, str]:
        """Return the columns that identify the object."""
        owner = self.team if self.kind.within_team else ""
        return {"kind": self.kind.name, "owner": owner, "name": self.name}

    def creation(self) -> dict[str, Any]:
        """Return the body that makes the object."""
        return {self.kind.named_by: self.name, "team": self.team or None, **self.spec}


def _refused(field: str, sentence: str) -> ConfigurationRefused:
    return ConfigurationRefused(fields={field or BODY: [sentence]})
