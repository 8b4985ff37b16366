"""A version whose files lie in the store, and a deployment that needs it."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from accounts.models import Team
from clusters.models import Cluster, Deployment
from model_store import blob_store
from model_store.file_manifest import ManifestFile, manifest_of
from models_registry.models import Model, Version, VersionFile
from models_registry.states import VersionState


def stored_version(team: Team, files: Mapping[str, bytes], *, label: str = "story:v1") -> Version:
    """A ready version with these files, as an import leaves it."""
    store, name = blob_store.store(), label.replace(":", "-")
    with store.staging(name) as staging, tempfile.TemporaryFile() as file:
        for content in files.values():
            file.seek(0)
            file.truncate()
            file.write(content)
            file.flush()
            staging.take(file.fileno(), os.fstat(file.fileno()).st_size, counted=lambda _: None)
    listed = [ManifestFile(p, len(c), hashlib.sha256(c).hexdigest(), "other") for p, c in files.items()]
    manifest = manifest_of(listed)
    store.publish(name, manifest)
    model_name, _, version_name = label.partition(":")
    model = Model.objects.get_or_create(team=team, name=model_name)[0]
    version = Version.objects.create(
        model=model,
        number=Version.objects.filter(model=model).count() + 1,
        name=version_name,
        state=VersionState.READY,
        digest=manifest.digest,
        ready_at=timezone.now(),
        file_count=len(listed),
        size_bytes=manifest.size_bytes,
        next_at=None,
    )
    rows = (
        VersionFile(version=version, path=f.path, size=f.size, sha256=f.sha256, format=f.format)
        for f in listed
    )
    VersionFile.objects.bulk_create(rows)
    return version


def deployed(cluster: Cluster, version: Version, *, name: str = "chat-v1", **fields: Any) -> Deployment:
    return Deployment.objects.create(
        name=name,
        cluster=cluster,
        team=version.model.team,
        service="chat",
        version=version,
        version_label=str(version),
        engine="echo",
        replicas=1,
        slots=1,
        **fields,
    )
