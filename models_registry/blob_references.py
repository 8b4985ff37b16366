"""What versions and uploads need of the store; see `references`."""

from collections.abc import Collection

from django.db.models import Q

from model_store.references import BlobOwner, References, Reserved
from models_registry.files import digests_with_companions, forget_orphaned_buffers
from models_registry.models import Upload, UploadContent, Version, VersionFile
from models_registry.selectors.catalogue import without_json
from models_registry.states import HOLDS_BLOBS, LIVE_UPLOADS, WHOLE


def _owners(blobs: Collection[str]) -> dict[str, list[BlobOwner]]:
    damaged = VersionFile.objects.filter(sha256__in=blobs, version__state__in=WHOLE)
    rows = without_json(damaged.select_related("version__model"), "version__")
    touched: dict[str, dict[int, BlobOwner]] = {}
    for row in rows.order_by("version", "pk"):
        version = row.version
        url = f"/models/{version.model.name}/{version.name}/"
        owner = BlobOwner(str(version), url, version.digest or "")
        touched.setdefault(row.sha256, {})[version.pk] = owner
    return {sha256: list(several.values()) for sha256, several in touched.items()}


def _laid_out(digests: Collection[str]) -> set[str]:
    ready = Version.objects.ready().filter(digest__in=digests)
    alone = {digest for digest in ready.values_list("digest", flat=True) if digest}
    return alone | (digests_with_companions() & set(digests) if alone != set(digests) else set())


def _importing(keys: Collection[str]) -> set[str]:
    ids = map(int, filter(str.isdigit, keys))
    held = Version.objects.filter(pk__in=ids, is_held=True).values_list("pk", flat=True)
    return {str(pk) for pk in held}


VERSIONS = References(
    rows=VersionFile.objects.filter(version__state__in=HOLDS_BLOBS),
    whole=VersionFile.objects.filter(version__state__in=WHOLE),
    team="version__model__team",
    owners=_owners,
    laid_out=_laid_out,
    keys=_importing,
)
UPLOADS = References(
    rows=UploadContent.objects.filter(is_known=True, upload__state__in=LIVE_UPLOADS),
    reserved=Reserved(
        # Once its version lists files, these count.
        Upload.objects.live().filter(Q(version=None) | Q(version__file_count=0)),
        "new_bytes",
        "model__team",
    ),
    tidy=forget_orphaned_buffers,
)
