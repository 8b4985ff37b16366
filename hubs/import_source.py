"""Repositories on hubs as sources of versions; see `sources.SourceKind`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.sealed import unseal
from hubs.endpoints import checked, hosts_of
from hubs.models import HubSource
from hubs.source import PATIENCE_SECONDS, RepositorySource
from hubs.states import HubKind
from models_registry import names
from models_registry.errors import SourceNotAllowed
from models_registry.models import Model, Version

HUB_VARIABLE = "SLIPWAY_HUB_ENDPOINTS"
PURPOSE = "hub"
"""Of `common.sealed`, for tokens."""
_SCHEMES = {HubKind.HUGGINGFACE: "hf", HubKind.MODELSCOPE: "ms"}


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


def check_endpoint(endpoint: str) -> str:
    """`endpoint` without a slash at its end, if the operator allows it. Raises SourceNotAllowed."""
    return checked(endpoint, settings.SLIPWAY_HUB_ENDPOINTS, _READ)


_READ = (
    HUB_VARIABLE,
    gettext_noop("This server does not read from %(hub)s. It reads from the hubs of %(variable)s: %(hubs)s."),
)


def trusted_hosts() -> tuple[str, ...]:
    """`name:port` of the hubs that the operator names."""
    return hosts_of(settings.SLIPWAY_HUB_ENDPOINTS)


def repository_named(source: str) -> AllowedRepository:
    """The repository of `hf://org/name@revision` on the default hub. Raises SourceNotAllowed."""
    repo_id, at, revision = source.strip()[len("hf://") :].partition("@")
    if not settings.SLIPWAY_HUB_ENDPOINTS:
        raise SourceNotAllowed(
            _("No hub is configured: %(hub_variable)s is empty.") % {"hub_variable": HUB_VARIABLE}
        )
    if not names.REPOSITORY.fullmatch(repo_id) or (at and not names.REVISION.fullmatch(revision)):
        raise SourceNotAllowed(
            _("A repository is named hf://org/name@revision, such as hf://acme/tiny@main.")
        )
    return AllowedRepository(settings.SLIPWAY_HUB_ENDPOINTS[0], repo_id, revision or "main")


class Repositories:
    """Revisions of repositories on the hubs that the operator allows."""

    name = "hub"
    scheme = "hf"

    def named(self, model: Model, text: str, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
        found = repository_named(text)
        # A source of the model tells where the repository lies, and has the token for it.
        known = HubSource.objects.live().filter(model=model, repo_id=found.repo_id).order_by("pk").first()
        if known:
            found = replace(found, endpoint=known.endpoint, kind=known.kind)
        return found.as_json(
            allow_patterns=(), ignore_patterns=ignore_patterns, hub_source=known.pk if known else None
        )

    def still_allowed(self, version: Version) -> dict[str, Any]:
        source: dict[str, Any] = version.source
        check_endpoint(source["endpoint"])
        return source

    def reading(self, source: dict[str, Any], *, admits_runnable: bool) -> RepositorySource:
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

    def secret(self, source: dict[str, Any]) -> str:
        return token_of(source)


def token_of(source: dict[str, Any]) -> str:
    """The token for what `Version.source` names; empty: none. Raises CannotUnseal."""
    sealed = ""
    if source.get("hub_source") is not None:
        found = HubSource.objects.filter(pk=source["hub_source"])
        sealed = found.values_list("sealed_token", flat=True).first() or ""
    return unseal(sealed, purpose=PURPOSE) if sealed else ""
