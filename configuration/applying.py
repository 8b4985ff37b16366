"""Make objects as files want them, all or none; what people changed since is shown and not undone unasked.

Each field is compared three ways: as the file has it, as the file had it when it was applied last, and as it
is now. A field that the file does not name is left alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _
from rest_framework import serializers

from accounts.actors import of_request
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import clock
from common.api.json import dumps
from common.api.problems import BODY
from common.configuration import kinds
from common.errors import NotAllowed
from configuration.documents import WantedDocument
from configuration.errors import ConfigurationRefused
from configuration.models import AppliedDocument
from configuration.rest import KindRoutes, RestObject, RestRefused
from configuration.states import AppliedAction

NOT_ALLOWED, METHOD_NOT_ALLOWED = 403, 405


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: Any
    after: Any

    @property
    def parts(self) -> "list[FieldChange]":
        """Return what differs within objects, as `policy.approval`; else the change itself."""
        before, after = self.before, self.after
        if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
            return [self]
        inner = [
            FieldChange(f"{self.field}.{key}", before.get(key), after.get(key))
            for key in {**before, **after}
            if before.get(key) != after.get(key)
        ]
        return [part for one in inner for part in one.parts]

    @property
    def words(self) -> tuple[str, str]:
        """The values as a page says them."""
        before, after = (
            one if isinstance(one, str) else dumps(one).decode() for one in (self.before, self.after)
        )
        return before, after


@dataclass(frozen=True, slots=True)
class AppliedChange:
    kind: str
    name: str
    team: str
    action: AppliedAction
    changes: Sequence[FieldChange] = ()
    drift: Sequence[FieldChange] = ()
    """Fields that people changed since: from what was applied to what is."""


@dataclass(slots=True)
class FileSet:
    """A directory of files of a team, which is applied in one request."""

    request: HttpRequest
    team: Team
    name: str
    reason: str = ""
    overwrite: bool = False
    """Whether fields that people changed since become what the files say."""
    dry_run: bool = False
    prune: bool = False
    """Whether objects that left the files are removed."""
    _kept: set[int] = field(default_factory=set)

    def apply(self, documents: Sequence[Mapping[str, Any]]) -> list[AppliedChange]:
        """Raises ConfigurationRefused, which names all documents at fault; NotAllowed. Nothing is done."""
        require(of_request(self.request), Right.SERVICES_WRITE, self.team)
        faults: dict[str, list[str]] = {}
        denied: list[str] = []
        done: list[AppliedChange] = []
        with transaction.atomic():
            for place, wanted in self._in_order(documents):
                try:
                    with transaction.atomic():
                        done.append(self._applied(wanted))
                except RestRefused as refused:
                    if refused.status == NOT_ALLOWED:
                        denied.append(f"{wanted.kind.name} {wanted.name}: {refused}")
                    faults |= _placed(place, refused.fields)
                except ConfigurationRefused as refused:
                    faults |= _placed(place, refused.fields)
            if not faults:
                done += self._left()
            if denied:
                raise NotAllowed(" ".join(denied))
            if faults:
                raise ConfigurationRefused(fields=faults)
            transaction.set_rollback(self.dry_run)
        return done

    def _in_order(self, documents: Sequence[Mapping[str, Any]]) -> list[tuple[int, WantedDocument]]:
        """Return the documents in the order in which they can be made. Raises ConfigurationRefused."""
        found: list[tuple[int, WantedDocument]] = []
        faults: dict[str, list[str]] = {}
        seen: set[tuple[str, ...]] = set()
        for place, given in enumerate(documents):
            try:
                wanted = WantedDocument.read(given, team=self.team.name)
            except ConfigurationRefused as refused:
                faults |= _placed(place, refused.fields)
                continue
            key = tuple(wanted.key.values())
            if key in seen:
                faults |= _placed(place, {"name": [_("Another document is of the same object.")]})
            seen.add(key)
            found.append((place, wanted))
        if faults:
            raise ConfigurationRefused(fields=faults)
        order = list(kinds())
        return sorted(found, key=lambda one: order.index(one[1].kind.name))

    def _applied(self, wanted: WantedDocument) -> AppliedChange:
        """Raises RestRefused, ConfigurationRefused."""
        last = AppliedDocument.objects.select_for_update().filter(**wanted.key).first()
        if last is not None and (last.team_id, last.file_set) != (self.team.pk, self.name):
            whose = {"set": last.file_set, "team": last.team}
            raise ConfigurationRefused(
                fields={"name": [_("The files %(set)s of team %(team)s manage this object.") % whose]}
            )
        routes = KindRoutes(wanted.kind, self.request)
        present = routes.found(wanted.name, wanted.team)
        told: dict[str, Any] = {"kind": wanted.kind.name, "name": wanted.name, "team": wanted.team}
        if present is None:
            made = self._made(routes, wanted)
            self._record(wanted, last, made.row)
            news = [FieldChange(name, None, made.row.get(name, value)) for name, value in wanted.spec.items()]
            return AppliedChange(**told, action=AppliedAction.CREATED, changes=news)
        drift = _drift(last, present.row)
        if not self.overwrite and not self.dry_run:
            _refuse_drift(drift, wanted, present)
        after = self._changed(routes, wanted, last, present) if drift or _differs(wanted, last) else present
        changes = [
            FieldChange(name, present.row[name], after.row[name])
            for name in {**wanted.spec, **(last.document if last else {})}
            if name in present.row and present.row[name] != after.row[name]
        ]
        self._record(wanted, last, after.row)
        action = AppliedAction.CHANGED if changes else AppliedAction.UNCHANGED
        return AppliedChange(**told, action=action, changes=_parts(changes), drift=_parts(drift))

    def _made(self, routes: KindRoutes, wanted: WantedDocument) -> RestObject:
        if fields := routes.fields("create"):
            body = {**self._why(wanted, fields), **wanted.creation()}
            return routes.call("POST", routes.collection, body)
        body = {**self._why(wanted, routes.fields("update")), **wanted.spec}
        return routes.call("PUT", routes.address(wanted.name, wanted.creation()), body)

    def _changed(
        self, routes: KindRoutes, wanted: WantedDocument, last: AppliedDocument | None, present: RestObject
    ) -> RestObject:
        """Return the object after the change; it is undone where it came to nothing."""
        fields = routes.fields("partial_update", "update")
        body = {**_emptied(fields, wanted, last), **_changeable(routes, wanted, present)}
        partial = bool(routes.fields("partial_update"))
        if partial:
            body = {name: value for name, value in body.items() if present.row.get(name) != value}
        elif all(present.row.get(name) == value for name, value in body.items()):
            body = {}
        if not body:
            return present
        method = "PATCH" if partial else "PUT"
        body = {**self._why(wanted, fields), **body}
        before = transaction.savepoint()
        after = routes.call(method, present.address, body, etag=present.etag)
        if all(after.row.get(name) == present.row.get(name) for name in body):
            transaction.savepoint_rollback(before)
            return present
        transaction.savepoint_commit(before)
        return after

    def _why(self, wanted: WantedDocument, fields: Mapping[str, Any]) -> dict[str, str]:
        takes = self.reason and wanted.kind.takes_reason and "reason" in fields
        return {"reason": self.reason} if takes else {}

    def _record(self, wanted: WantedDocument, last: AppliedDocument | None, row: Mapping[str, Any]) -> None:
        observed = {name: row[name] for name in wanted.spec if name in row}
        if last is not None and (last.document, last.observed) == (wanted.spec, observed):
            self._kept.add(last.pk)
            return
        columns: dict[str, Any] = {
            "document": wanted.spec,
            "observed": observed,
            "applied_by": of_request(self.request).name,
            "applied_at": clock.now(),
        }
        key: dict[str, Any] = wanted.key
        columns |= {"team": self.team, "file_set": self.name}
        saved, _made = AppliedDocument.objects.update_or_create(**key, defaults=columns)
        self._kept.add(saved.pk)

    def _left(self) -> list[AppliedChange]:
        """Remove objects that left the files, where that was asked for, and list them."""
        rows = AppliedDocument.objects.filter(team=self.team, file_set=self.name).exclude(pk__in=self._kept)
        order = list(kinds())
        return [
            self._removed(row)
            for row in sorted(rows, key=lambda row: order.index(row.kind), reverse=True)
            if row.kind in order
        ]

    def _removed(self, row: AppliedDocument) -> AppliedChange:
        """Raises ConfigurationRefused, NotAllowed."""
        kind = kinds()[row.kind]
        owner = row.owner if kind.within_team else row.name if kind.named_by == "team" else self.team.name
        told: dict[str, Any] = {"kind": row.kind, "name": row.name, "team": owner}
        if not self.prune:
            return AppliedChange(**told, action=AppliedAction.LEFT)
        routes = KindRoutes(kind, self.request)
        present = routes.found(row.name, row.owner)
        row.delete()
        if present is None:
            return AppliedChange(**told, action=AppliedAction.REMOVED)
        try:
            if kind.emptied_by is not None:
                body = {**kind.emptied_by, **({"reason": self.reason} if self.reason else {})}
                routes.call("PUT", present.address, body)
            else:
                joint = "&" if "?" in present.address else "?"
                why = f"{joint}{urlencode({'reason': self.reason})}" if self.reason else ""
                routes.call("DELETE", f"{present.address}{why}", etag=present.etag)
        except RestRefused as refused:
            if refused.status == METHOD_NOT_ALLOWED:
                return AppliedChange(**told, action=AppliedAction.RELEASED)
            if refused.status == NOT_ALLOWED:
                raise NotAllowed(f"{row}: {refused}") from None
            raise ConfigurationRefused(fields={BODY: [f"{row}: {refused}"]}) from None
        return AppliedChange(**told, action=AppliedAction.REMOVED)


def drift_of(row: AppliedDocument, request: HttpRequest) -> list[FieldChange] | None:
    """Return what people changed since the document was applied; None: the object is gone, or hidden."""
    kind = kinds().get(row.kind)
    present = KindRoutes(kind, request).found(row.name, row.owner) if kind else None
    return None if present is None else _parts(_drift(row, present.row))


def _parts(changes: Sequence[FieldChange]) -> list[FieldChange]:
    return [part for one in changes for part in one.parts]


def _drift(last: AppliedDocument | None, row: Mapping[str, Any]) -> list[FieldChange]:
    observed = last.observed if last else {}
    return [
        FieldChange(name, value, row[name])
        for name, value in observed.items()
        if name in row and row[name] != value
    ]


def _refuse_drift(drift: Sequence[FieldChange], wanted: WantedDocument, present: RestObject) -> None:
    """Raises ConfigurationRefused. What the file says already, too, is no drift any more."""
    sentence = _(
        'People changed it since, to "%(now)s". Take that into the file, or undo it with `overwrite`.'
    )
    faults = {
        f"spec.{part.field}": [sentence % {"now": part.words[1]}]
        for one in drift
        if wanted.spec.get(one.field) != present.row[one.field]
        for part in one.parts
    }
    if faults:
        raise ConfigurationRefused(fields=faults)


def _differs(wanted: WantedDocument, last: AppliedDocument | None) -> bool:
    return last is None or last.document != wanted.spec


def _changeable(routes: KindRoutes, wanted: WantedDocument, present: RestObject) -> dict[str, Any]:
    """Return the fields that a change can set. Raises ConfigurationRefused where others differ."""
    fixed = set(routes.fields("create")) - set(routes.fields("partial_update", "update"))
    faults = {
        f"spec.{name}": [_("It is set for good when the object is made; it is %(now)s.") % {"now": now}]
        for name in fixed & set(wanted.spec)
        if (now := present.row.get(name, wanted.spec[name])) != wanted.spec[name]
    }
    if faults:
        raise ConfigurationRefused(fields=faults)
    return {name: value for name, value in wanted.spec.items() if name not in fixed}


def _emptied(
    fields: Mapping[str, Any], wanted: WantedDocument, last: AppliedDocument | None
) -> dict[str, Any]:
    """Return empty values for fields that left the file; those that cannot be empty stay as they are."""
    gone = set(last.document) - set(wanted.spec) if last else set()
    found: dict[str, Any] = {}
    for name in gone & set(fields):
        one = fields[name]
        if one.allow_null:
            found[name] = None
        elif isinstance(one, serializers.DictField):
            found[name] = {}
        elif isinstance(one, serializers.ListField):
            found[name] = []
        elif getattr(one, "allow_blank", False):
            found[name] = ""
    return found


def _placed(place: int, fields: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {f"documents.{place}.{name or BODY}": list(said) for name, said in fields.items()}
