"""ETags on single objects, and If-Match as a compare-and-set on the row's revision."""

import hashlib
from typing import Any

from django.db.models import Model
from django.http import HttpRequest
from django.utils.http import parse_etags
from django.utils.translation import gettext as _

from common.api.json import dumps
from common.errors import Stale
from common.revisions import Revised


def etag_of(instance: Model, shown: Any) -> str:
    """`"7-3f9c..."`: the row's revision, where it has one, and a digest of what was shown of it."""
    digest = hashlib.sha256(dumps(shown)).hexdigest()[:16]
    return f'"{instance.revision}-{digest}"' if isinstance(instance, Revised) else f'"{digest}"'


def unchanged(request: HttpRequest, etag: str) -> bool:
    """The client has this very representation already (If-None-Match)."""
    return any(_bare(tag) in ("*", etag) for tag in parse_etags(request.headers.get("If-None-Match", "")))


def expected_revision(request: HttpRequest, instance: Model, *, shown: Any) -> int | None:
    """The revision that the change must find, None where the client set no condition. Raises Stale.

    Only the revision counts for a `Revised` row: a model that got a new version meanwhile can still have its
    description changed. The caller hands the number to the service, where the row is changed by
    compare-and-set, so that a change between this look and that write is noticed too.
    """
    tags = [_bare(tag) for tag in parse_etags(request.headers.get("If-Match", ""))]
    if "If-Match" not in request.headers or "*" in tags:
        return None
    if isinstance(instance, Revised):
        if any(tag.strip('"').partition("-")[0] == str(instance.revision) for tag in tags):
            return instance.revision
    elif etag_of(instance, shown) in tags:
        return None
    raise Stale(_("It is not what your If-Match names any more. Read it again, then repeat the change."))


def _bare(tag: str) -> str:
    """A proxy that compresses turns a strong tag into a weak one; the revision in it is still exact."""
    return tag.removeprefix("W/")
