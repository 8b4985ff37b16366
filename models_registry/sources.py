"""From what a person names to what may be read or written: directories, repositories, other hubs' models."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.sentences import listed
from models_registry import files, names
from models_registry.errors import SourceNotAllowed
from models_registry.hub.source import PATIENCE_SECONDS, RepositorySource
from models_registry.hub.target import RepositoryTarget, SlipwayTarget
from models_registry.importing.directory import DirectorySource
from models_registry.importing.upload import UploadSource
from models_registry.models import Export, Upload
from models_registry.paths import printable
from models_registry.states import HubKind

VARIABLE = "SLIPWAY_IMPORT_ROOTS"
HUB_VARIABLE = "SLIPWAY_HUB_ENDPOINTS"
EXPORT_VARIABLE = "SLIPWAY_EXPORT_ENDPOINTS"
MAX_LENGTH = 4_096
_SCHEMES = {HubKind.HUGGINGFACE: "hf", HubKind.MODELSCOPE: "ms"}


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
        }


@dataclass(frozen=True, slots=True)
class AllowedRepository:
    """A revision of a repository on a hub that the operator allows."""

    endpoint: str
    repo_id: str
    revision: str
    kind: str = HubKind.HUGGINGFACE

    def as_json(
        self,
        *,
        allow_patterns: Sequence[str],
        ignore_patterns: Sequence[str],
        hub_source: int | None,
        commit: str = "",
    ) -> dict[str, Any]:
        """`commit` is what `revision` was found to be; then that is fetched, whatever the branch becomes."""
        return {
            "kind": "hub",
            "hub_kind": str(self.kind),
            "uri": f"{_SCHEMES[HubKind(self.kind)]}://{self.repo_id}@{self.revision}",
            "endpoint": self.endpoint,
            "repo_id": self.repo_id,
            "revision": self.revision,
            "commit": commit,
            "allow_patterns": list(allow_patterns),
            "ignore_patterns": list(ignore_patterns),
            "hub_source": hub_source,
        }


def source_of(
    source: dict[str, Any], *, admits_runnable: bool
) -> DirectorySource | RepositorySource | UploadSource:
    """What a version's import reads; see `Version.source` and `contents.identify`."""
    if source["kind"] == "upload":
        upload = Upload.objects.get(pk=source["upload"])
        return UploadSource(
            str(files.spool_of(upload).directory), upload.part_bytes, admits_runnable=admits_runnable
        )
    if source["kind"] == "hub":
        return RepositorySource(
            endpoint=source["endpoint"],
            repo_id=source["repo_id"],
            revision=source["commit"] or source["revision"],
            allow_patterns=tuple(source["allow_patterns"]),
            ignore_patterns=tuple(source["ignore_patterns"]),
            trusted_hosts=trusted_hosts(),
            patience_seconds=PATIENCE_SECONDS,
            admits_runnable=admits_runnable,
            # Versions from before there was another kind do not name theirs.
            kind=source.get("hub_kind", HubKind.HUGGINGFACE),
        )
    patterns = tuple(source["ignore_patterns"])
    return DirectorySource(source["root"], source["path"], patterns, admits_runnable)


def check_endpoint(endpoint: str) -> str:
    """`endpoint` without a slash at its end, if the operator allows it. Raises SourceNotAllowed."""
    return _checked(endpoint, settings.SLIPWAY_HUB_ENDPOINTS, _READ)


def check_export_endpoint(endpoint: str) -> str:
    """Like `check_endpoint`, for where versions may go."""
    return _checked(endpoint, settings.SLIPWAY_EXPORT_ENDPOINTS, _EXPORT)


_READ = (
    HUB_VARIABLE,
    gettext_noop("This server does not read from %(hub)s. It reads from the hubs of %(variable)s: %(hubs)s."),
)
_EXPORT = (
    EXPORT_VARIABLE,
    gettext_noop("This server does not export to %(hub)s. It exports to the hubs of %(variable)s: %(hubs)s."),
)


def _checked(endpoint: str, allowed: Sequence[str], refusal: tuple[str, str]) -> str:
    plain, (variable, sentence) = endpoint.strip().rstrip("/"), refusal
    if plain not in allowed:
        hubs = listed(allowed) or _("none")
        raise SourceNotAllowed(
            _(sentence) % {"hub": printable(plain)[:200], "variable": variable, "hubs": hubs}
        )
    return plain


def export_target(export: Export) -> RepositoryTarget | SlipwayTarget:
    """Where an export goes, and the words of its commit."""
    digest = export.version.digest or ""
    if export.is_to_slipway:
        return SlipwayTarget(
            endpoint=export.endpoint,
            model=export.repo_id,
            message=export.version.message
            or _("%(version)s of %(slipway_public_url)s")
            % {"version": export.version, "slipway_public_url": settings.SLIPWAY_PUBLIC_URL},
            origin=f"{settings.SLIPWAY_PUBLIC_URL} {export.version}"[:300],
            lineage={"exported_from": f"{settings.SLIPWAY_PUBLIC_URL} {export.version} sha256:{digest}"},
            task=export.version.model.task,
            creates=export.creates,
            trusted_hosts=_hosts_of(settings.SLIPWAY_EXPORT_ENDPOINTS),
            patience_seconds=PATIENCE_SECONDS,
        )
    marker = f"Slipway-Export: {export.key}"  # untranslated
    return RepositoryTarget(
        endpoint=export.endpoint,
        repo_id=export.repo_id,
        branch=export.branch,
        title=f"{export.version} (sha256:{digest[:12]})",
        description=_("Version: %(version)s\nDigest: sha256:%(digest)s\n%(marker)s")
        % {"version": export.version, "digest": digest, "marker": marker},
        marker=marker,
        creates=export.creates,
        is_private=export.is_private,
        trusted_hosts=_hosts_of(settings.SLIPWAY_EXPORT_ENDPOINTS),
        patience_seconds=PATIENCE_SECONDS,
    )


def trusted_hosts() -> tuple[str, ...]:
    """`name:port` of the hubs that the operator names."""
    return _hosts_of(settings.SLIPWAY_HUB_ENDPOINTS)


def _hosts_of(endpoints: Sequence[str]) -> tuple[str, ...]:
    addresses = [urlsplit(endpoint) for endpoint in endpoints]
    return tuple(
        f"{address.hostname}:{address.port or (443 if address.scheme == 'https' else 80)}"
        for address in addresses
    )


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


def is_repository(source: str) -> bool:
    return source.strip().lower().startswith("hf://")


def repository_named(source: str) -> AllowedRepository:
    """The repository of `hf://org/name@revision` on the default hub. Raises SourceNotAllowed."""
    repo_id, at, revision = source.strip()[len("hf://") :].partition("@")
    if not settings.SLIPWAY_HUB_ENDPOINTS:
        raise SourceNotAllowed(
            _("This server reads from no hub: %(hub_variable)s is empty.") % {"hub_variable": HUB_VARIABLE}
        )
    if not names.REPOSITORY.fullmatch(repo_id) or (at and not names.REVISION.fullmatch(revision)):
        raise SourceNotAllowed(
            _("A repository is named hf://org/name@revision, such as hf://acme/tiny@main.")
        )
    return AllowedRepository(settings.SLIPWAY_HUB_ENDPOINTS[0], repo_id, revision or "main")


def allowed_directory(source: str, *, roots: Sequence[Path], store: Path) -> AllowedDirectory:
    """The directory that `source` (an absolute path or a `file:///` address) names.

    It must lie in one of `roots` after all symlinks are resolved, and apart from the `store`. Raises
    SourceNotAllowed. Links that are put in its way later are not followed: see `source_tree.opened`.
    """
    path = _path_of(source)
    if not roots:
        raise SourceNotAllowed(
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
        raise SourceNotAllowed(
            _("%(path)s is not inside an import root (%(variable)s: %(named)s).")
            % {"path": printable(path), "variable": VARIABLE, "named": named}
        )
    home = Path(os.path.realpath(store))
    if real.is_relative_to(home) or home.is_relative_to(real):
        raise SourceNotAllowed(_("%(path)s overlaps the model store itself.") % {"path": printable(path)})
    if not real.is_dir():
        what = _("is a file, not a directory") if real.exists() else _("is not there")
        raise SourceNotAllowed(f"{printable(path)} {what}.")
    root = max(inside, key=lambda root: len(root.parts))
    return AllowedDirectory(root, real.relative_to(root).as_posix())


def _path_of(source: str) -> str:
    text = source.strip()
    if not text or len(text) > MAX_LENGTH or "\x00" in text:
        raise SourceNotAllowed(_("Give the absolute path of a directory on the server."))
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if scheme is None:
        path = text
    elif scheme[1].lower() == "file":
        address = urlsplit(text)
        if address.netloc not in ("", "localhost") or address.query or address.fragment:
            raise SourceNotAllowed(_("A file address has the form file:///directory, without host, ? and #."))
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
    return path


def _decodes(quoted: str) -> bool:
    try:
        unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        return False
    return True
