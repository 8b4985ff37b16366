"""Where exports go, and what is said there."""

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from hubs.endpoints import checked, hosts_of
from hubs.models import Export
from hubs.source import PATIENCE_SECONDS
from hubs.target import RepositoryTarget, SlipwayTarget

EXPORT_VARIABLE = "SLIPWAY_EXPORT_ENDPOINTS"


def check_export_endpoint(endpoint: str) -> str:
    """Like `check_endpoint`, for where versions may go."""
    return checked(endpoint, settings.SLIPWAY_EXPORT_ENDPOINTS, _EXPORT)


_EXPORT = (
    EXPORT_VARIABLE,
    gettext_noop("This server does not export to %(hub)s. It exports to the hubs of %(variable)s: %(hubs)s."),
)


def export_target(export: Export) -> RepositoryTarget | SlipwayTarget:
    """Return the target of an export, with its commit message."""
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
            trusted_hosts=hosts_of(settings.SLIPWAY_EXPORT_ENDPOINTS),
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
        trusted_hosts=hosts_of(settings.SLIPWAY_EXPORT_ENDPOINTS),
        patience_seconds=PATIENCE_SECONDS,
    )
