"""What versions are imported from, by kind: directories, uploads, and what apps above have registered."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from common.hosts import this_host
from common.reconcile.pulses import living_hosts, publish, published
from model_store.paths import printable
from models_registry.errors import NotInAnImportRoot, SourceNotAllowed, SourceNotThere
from models_registry.importing.directory import DirectorySource
from models_registry.importing.upload import UploadSource
from models_registry.models import Model, Upload, Version
from models_registry.states import UploadState

VARIABLE = "SLIPWAY_IMPORT_ROOTS"
ROOTS = "import_roots"
"""Published by each host for the others."""
MAX_LENGTH = 4_096


class SourceKind(Protocol):
    """A kind of `Version.source`, which is JSON with `kind`, `uri` and whatever else the kind needs."""

    name: str
    scheme: str
    """Of the addresses by which people name such a source."""

    def named(self, model: Model, text: str, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
        """The source that a person names for a version of the model. Raises SourceNotAllowed."""

    def still_allowed(self, version: Version) -> dict[str, Any]:
        """The source of a version, if this server still reads it. Raises SourceNotAllowed."""

    def reading(self, source: dict[str, Any], *, admits_runnable: bool) -> Any:
        """Return the input of the importing process; see `trust.formats.identification.identify`.

        Raises SourceNotAllowed.
        """

    def secret(self, source: dict[str, Any]) -> str:
        """Return the secret for reading the source, or an empty text. Raises CannotUnseal."""


_kinds: dict[str, SourceKind] = {}


def register_source_kind(kind: SourceKind) -> None:
    """Let versions be imported from sources of that kind."""
    _kinds[kind.name] = kind


def source_named(model: Model, text: str, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
    """Return the source of a person's text: by its scheme, or a directory. Raises SourceNotAllowed."""
    scheme = text.strip().partition("://")[0].lower()
    found = next((kind for kind in _kinds.values() if kind.scheme == scheme), _DIRECTORY)
    return found.named(model, text, ignore_patterns=ignore_patterns)


def readable_source(version: Version) -> dict[str, Any]:
    """The source of a version, if this server still reads it. Raises SourceNotAllowed."""
    return _kinds[version.source["kind"]].still_allowed(version)


def source_of(source: dict[str, Any], *, admits_runnable: bool) -> Any:
    """Return the input of a version's import; see `Version.source` and
    `trust.formats.identification.identify`. Raises SourceNotAllowed.
    """
    return _kinds[source["kind"]].reading(source, admits_runnable=admits_runnable)


def secret_of(source: dict[str, Any]) -> str:
    """Return the secret that the importing process needs. Raises CannotUnseal."""
    return _kinds[source["kind"]].secret(source)


@dataclass(frozen=True, slots=True)
class AllowedDirectory:
    """A directory inside an import root; `path` is relative to `root`, both without symlinks."""

    root: Path
    path: str

    def as_json(self, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
        return {
            "kind": "directory",
            "uri": (self.root / self.path).as_uri(),
            "root": str(self.root),
            "path": self.path,
            "ignore_patterns": list(ignore_patterns),
            # Where it was seen; a host that takes no rows must have it in common with one that does.
            "host": this_host() if this_host() in living_hosts() else "",
        }


class _Directories:
    """Directories of this server, or of another living host, inside its import roots."""

    name = "directory"
    scheme = "file"

    def named(self, model: Model, text: str, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
        """Return the directory, here or on the host that `file://host/directory` names.

        One without a host, in no import root of this one, is imported by a host that has such a root.
        """
        host, path = _address_of(text)
        roots = roots_elsewhere()
        having = [name for name, there in roots.items() if _is_inside(path, there)]
        if host and host != this_host():
            _check_root_of(host, path, roots)
            return _on(host, path, ignore_patterns)
        try:
            found = _allowed_here(path)
        except NotInAnImportRoot:
            if having:
                return _on(having[0], path, ignore_patterns)
            if roots:
                raise _outside(path, {this_host(): _roots_here(), **roots}) from None
            raise
        except SourceNotThere as error:
            if not having:
                raise
            there = {"hosts": ", ".join(having), "address": _on(having[0], path, ())["uri"]}
            hint = _("Hosts with that import root: %(hosts)s. %(address)s imports it there.") % there
            raise SourceNotThere(f"{error.sentence} {hint}") from None
        return found.as_json(ignore_patterns=ignore_patterns)

    def still_allowed(self, version: Version) -> dict[str, Any]:
        source = version.source
        text, (host, path) = source["uri"], _address_of(source["uri"])
        if not host and source.get("host") in roots_elsewhere():
            text = _on(source["host"], path, ())["uri"]
        return self.named(version.model, text, ignore_patterns=source["ignore_patterns"])

    def reading(self, source: dict[str, Any], *, admits_runnable: bool) -> DirectorySource:
        root, path = source["root"], source["path"]
        if not root:  # Another host was asked, which cannot look.
            host, where = _address_of(source["uri"])
            if host != this_host():
                raise SourceNotAllowed(
                    _("%(path)s lies on the host %(host)s, of which nothing is heard. Start its worker.")
                    % {"path": printable(where), "host": host}
                )
            found = _allowed_here(where)
            root, path = str(found.root), found.path
        return DirectorySource(root, path, tuple(source["ignore_patterns"]), admits_runnable)

    def secret(self, source: dict[str, Any]) -> str:
        return ""


def roots_elsewhere() -> dict[str, list[str]]:
    """Import roots of the other living hosts, by host in the order of their names."""
    return {host: roots for host, roots in sorted(published(ROOTS).items()) if host != this_host()}


def _roots_here() -> list[str]:
    return [str(root) for root in settings.SLIPWAY_IMPORT_ROOTS]


def _allowed_here(path: str) -> AllowedDirectory:
    roots, store = settings.SLIPWAY_IMPORT_ROOTS, Path(settings.SLIPWAY_STORE_DIR)
    return allowed_directory(path, roots=roots, store=store)


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(Path(os.path.normpath(path)).is_relative_to(root) for root in roots)


def _on(host: str, path: str, ignore_patterns: Sequence[str]) -> dict[str, Any]:
    """The source of a directory of another host, which resolves it when it begins to import."""
    uri = f"file://{host}{quote(os.path.normpath(path))}"
    unresolved = {"kind": "directory", "uri": uri, "root": "", "path": "", "host": host}
    return unresolved | {"ignore_patterns": list(ignore_patterns)}


def _check_root_of(host: str, path: str, roots: Mapping[str, Sequence[str]]) -> None:
    """Raises SourceNotAllowed unless an import root of that other host has the path. `roots`: by host."""
    if host not in roots:
        known = {"host": host, "hosts": ", ".join(sorted({this_host(), *roots}))}
        raise SourceNotAllowed(_("No living host has the name %(host)s. These import: %(hosts)s.") % known)
    if not _is_inside(path, roots[host]):
        raise _outside(path, {host: roots[host]})


def _outside(path: str, roots: Mapping[str, Sequence[str]]) -> NotInAnImportRoot:
    named = "; ".join(f"{host}: {', '.join(there) or '-'}" for host, there in roots.items())
    return NotInAnImportRoot(
        _("%(path)s is not inside an import root (%(variable)s) of any of these hosts: %(named)s.")
        % {"path": printable(path), "variable": VARIABLE, "named": named}
    )


class _Uploads:
    """Uploads that were sent part by part; their completion makes versions of them."""

    name = "upload"
    scheme = "upload"

    def named(self, model: Model, text: str, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
        """Refused: an upload becomes a version when it is completed, see `services.complete_upload`."""
        return _DIRECTORY.named(model, text, ignore_patterns=ignore_patterns)

    def still_allowed(self, version: Version) -> dict[str, Any]:
        source: dict[str, Any] = version.source
        if not open_upload_of(source).exists():
            raise SourceNotAllowed(
                _("What was uploaded for %(version)s is gone. Push it again.") % {"version": version}
            )
        return source

    def reading(self, source: dict[str, Any], *, admits_runnable: bool) -> UploadSource:
        upload = Upload.objects.get(pk=source["upload"])
        return UploadSource(upload.key.hex, upload.part_bytes, admits_runnable=admits_runnable)

    def secret(self, source: dict[str, Any]) -> str:
        return ""


def open_upload_of(source: Mapping[str, Any]) -> QuerySet[Upload]:
    """The upload that a version was made of, if what came is still there and nothing is made of it."""
    return Upload.objects.filter(pk=source["upload"], state=UploadState.OPEN)


def upload_named(source: str) -> int | None:
    """The id in `upload://<id>`; None: it is none. Raises SourceNotAllowed."""
    if not source.strip().lower().startswith("upload://"):
        return None
    number = source.strip()[len("upload://") :]
    if not re.fullmatch(r"[0-9]{1,18}", number):
        raise SourceNotAllowed(
            _("An upload is named upload://<id>, with the id that its beginning answered.")
        )
    return int(number)


def allowed_directory(path: str, *, roots: Sequence[Path], store: Path) -> AllowedDirectory:
    """The directory of this host at that absolute path.

    It must lie in one of `roots` after all symlinks are resolved, and apart from the `store`. Raises
    SourceNotAllowed. Links that are put in its way later are not followed: see `source_tree.opened`.
    """
    if not roots:
        raise NotInAnImportRoot(
            _(
                "This server imports from no directory: %(variable)s is empty. Its operator sets it "
                "to the directories that imports may read."
            )
            % {"variable": VARIABLE}
        )
    real = Path(os.path.realpath(path))
    inside = [root for root in (Path(os.path.realpath(root)) for root in roots) if real.is_relative_to(root)]
    if not inside:
        named = ", ".join(str(root) for root in roots)
        raise NotInAnImportRoot(
            _("%(path)s is not inside an import root of the host %(host)s (%(variable)s: %(named)s).")
            % {"path": printable(path), "host": this_host(), "variable": VARIABLE, "named": named}
        )
    home = Path(os.path.realpath(store))
    if real.is_relative_to(home) or home.is_relative_to(real):
        raise SourceNotAllowed(_("%(path)s overlaps the model store itself.") % {"path": printable(path)})
    if not real.is_dir():
        what = _("is a file, not a directory") if real.exists() else _("is not there")
        raise SourceNotThere(
            _("%(path)s %(what)s, on the host %(host)s.")
            % {"path": printable(path), "what": what, "host": this_host()}
        )
    root = max(inside, key=lambda root: len(root.parts))
    return AllowedDirectory(root, real.relative_to(root).as_posix())


def _address_of(source: str) -> tuple[str, str]:
    """Host (empty: this one) and absolute path of a path or a `file://` address. Raises SourceNotAllowed."""
    host, text = "", source.strip()
    if not text or len(text) > MAX_LENGTH or "\x00" in text:
        raise SourceNotAllowed(_("Give the absolute path of a directory on the server."))
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if scheme is None:
        path = text
    elif scheme[1].lower() == "file":
        address = urlsplit(text)
        if address.query or address.fragment:
            raise SourceNotAllowed(
                _("A file address has the form file:///directory or file://host/directory, without ? and #.")
            )
        host = address.netloc.removeprefix("localhost")
        path = unquote(address.path, errors="strict") if _decodes(address.path) else ""
    else:
        raise SourceNotAllowed(
            _(
                "This server does not import from %(lower)s:// addresses. Give "
                "hf://org/name@revision, or the absolute path of a directory on the server."
            )
            % {"lower": scheme[1].lower()}
        )
    if not path.startswith("/") or "\x00" in path:
        raise SourceNotAllowed(_("Give an absolute path; it begins with '/'."))
    return host, path


def _decodes(quoted: str) -> bool:
    try:
        unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


_DIRECTORY = _Directories()
register_source_kind(_DIRECTORY)
register_source_kind(_Uploads())
publish(ROOTS, _roots_here)
