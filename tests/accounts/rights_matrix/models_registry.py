from collections.abc import Callable, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from accounts.states import Right
from model_store.backends.local import LocalStore
from model_store.models import Check, Collection, CorruptBlob
from models_registry.models import Upload, VersionFile
from models_registry.selectors.retention import retention_preview
from models_registry.services.uploads import begin_upload, take_parts
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM

VERSION = "models/{model}/versions/{version}/"
RETENTION = "models/{model}/retention/"
UPLOADS = "models/{model}/uploads/"
UPLOAD = UPLOADS + "{id}/"
STORAGE = "teams/{team}/storage/"
EMPTY_OBJECT = {"path": "config.json", "size": 2, "sha256": sha256(b"{}").hexdigest()}
"""What an empty body is as a file, in JSON."""
CARD = {"size": 2, "sha256": EMPTY_OBJECT["sha256"]}
ALIAS = "models/{model}/aliases/{alias}/"
HUB_SOURCE = "hub-sources/{id}/"
HUB_SYNC = "hub-syncs/{id}/"
EXPORT = "exports/{id}/"


def _model(scene: Scene) -> Mapping[str, Any]:
    return {"model": scene.model.name}


def _ready(scene: Scene) -> Mapping[str, Any]:
    return {"model": scene.model.name, "version": scene.version().name, "other": scene.version().name}


def _carded(scene: Scene) -> Mapping[str, Any]:
    """A ready version whose card, of two bytes, is in the store."""
    held = VersionFile(version=scene.version(), path="README.md", format="text", **CARD)
    VersionFile.objects.bulk_create([held], ignore_conflicts=True)
    blob = LocalStore(Path(settings.SLIPWAY_STORE_DIR)).blob_path(CARD["sha256"])
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(b"{}")
    return _ready(scene)


def _importing(scene: Scene) -> Mapping[str, Any]:
    return {"model": scene.model.name, "version": scene.version("importing").name}


def _archived(scene: Scene) -> Mapping[str, Any]:
    return {"model": scene.model.name, "version": scene.version("archived").name}


def _failed(scene: Scene) -> Mapping[str, Any]:
    return {"model": scene.model.name, "version": scene.version("failed").name}


def _alias(scene: Scene) -> Mapping[str, Any]:
    return {"model": scene.model.name, "alias": scene.alias.name}


def _exemption(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.exemption.pk}


def _trusted_key(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.trusted_key.pk}


def _policy(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.signature_policy.team.name}


def _signed(scene: Scene) -> Mapping[str, Any]:
    return {"model": scene.model.name, "version": scene.signed_version().name}


def _hub_source(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.hub_source.pk}


def _sync(state: str) -> Callable[[Scene], Mapping[str, Any]]:
    return lambda scene: {"id": scene.sync(state).pk}


def _sync_wish(wish: str, state: str) -> Route:
    return _wish(f"{HUB_SYNC}{wish}/", Right.MODELS_WRITE, _sync(state))


def _wish(path: str, needs: Right, fill: Callable[[Scene], Mapping[str, Any]]) -> Route:
    return Route("POST", path, needs, fill=fill, body=lambda scene: {"reason": "needed"}, status=202)


def _export(state: str) -> Callable[[Scene], Mapping[str, Any]]:
    return lambda scene: {"id": scene.export(state).pk}


def _new_export(scene: Scene) -> Mapping[str, Any]:
    held = VersionFile(version=scene.version(), path="config.json", size=2, sha256="0" * 64, format="json")
    VersionFile.objects.bulk_create([held], ignore_conflicts=True)
    return {
        "model": scene.model.name,
        "version": scene.version().name,
        "repo_id": f"acme/{new_name()}",
        "reason": "it is asked for",
    }


def _export_wish(wish: str, state: str) -> Route:
    return _wish(f"{EXPORT}{wish}/", Right.MODELS_EXPORT, _export(state))


def _ruled(scene: Scene) -> Mapping[str, Any]:
    _ = scene.rule
    return {"model": scene.model.name}


def _upload(scene: Scene) -> Mapping[str, Any]:
    """An upload of which nothing has arrived."""
    upload = begin_upload(actor=SYSTEM, model=scene.model, files=[EMPTY_OBJECT])
    return {"model": scene.model.name, "id": upload.pk, "sha256": EMPTY_OBJECT["sha256"]}


def _whole_upload(scene: Scene) -> Mapping[str, Any]:
    told = _upload(scene)
    upload = Upload.objects.get(pk=told["id"])
    take_parts(actor=SYSTEM, upload=upload, sha256=told["sha256"], content_range="", body=BytesIO(b"{}"))
    return told


def _team(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.team.name}


def _collection(scene: Scene) -> Mapping[str, Any]:
    return {"id": Collection.objects.create(asked_by_name="someone", grace_seconds=0, state="done").pk}


def _check(scene: Scene) -> Mapping[str, Any]:
    return {"id": Check.objects.create(asked_by_name="someone", bytes_per_second=1, state="done").pk}


def _corrupt_blob(scene: Scene) -> Mapping[str, Any]:
    """A corrupt blob that waits for a person."""
    told = {"found_by_id": _check(scene)["id"], "size": 1, "detail": "gone", "state": "lost"}
    return {"id": CorruptBlob.objects.create(sha256=sha256(new_name().encode()).hexdigest(), **told).pk}


ROUTES = [
    Route("GET", "models/", Access.SIGNED_IN, owned=False),
    Route("GET", "versions/", Access.SIGNED_IN, owned=False),
    Route("GET", "uploads/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "models/",
        Right.MODELS_WRITE,
        body=lambda scene: {"name": new_name(), "team": scene.team.name},
        status=201,
        owned=False,
    ),
    Route("GET", "models/{model}/", Right.READ, fill=_model),
    Route("PATCH", "models/{model}/", Right.MODELS_WRITE, fill=_model, body=lambda scene: {"task": "x"}),
    Route("DELETE", "models/{model}/", Right.MODELS_WRITE, fill=_model, status=204),
    Route("GET", "models/{model}/history/", Right.READ, fill=_model),
    Route("GET", "models/{model}/versions/", Right.READ, fill=_model),
    Route(
        "POST",
        "models/{model}/versions/",
        Right.MODELS_WRITE,
        fill=_model,
        body=lambda scene: {"source": str(settings.SLIPWAY_IMPORT_ROOTS[0])},
        status=202,
    ),
    Route("GET", VERSION, Right.READ, fill=_ready),
    Route("DELETE", VERSION, Right.MODELS_WRITE, fill=_ready, status=204),
    Route("GET", VERSION + "card/", Right.READ, fill=_carded),
    Route("GET", VERSION + "compare/{other}/", Right.READ, fill=_ready),
    Route("GET", VERSION + "events/", Right.READ, fill=_ready),
    Route("GET", VERSION + "evaluations/", Right.READ, fill=_ready),
    Route(
        "PUT",
        VERSION + "evaluations/",
        Right.MODELS_WRITE,
        fill=_ready,
        body=lambda scene: {"figures": [{"name": "accuracy", "value": 0.5}]},
    ),
    Route("GET", VERSION + "evaluations/history/", Right.READ, fill=_ready),
    Route(
        "POST", VERSION + "cancel/", Right.MODELS_WRITE, fill=_importing, body=lambda scene: {}, status=202
    ),
    Route("POST", VERSION + "archive/", Right.MODELS_WRITE, fill=_ready, body=lambda scene: {}),
    Route("POST", VERSION + "restore/", Right.MODELS_WRITE, fill=_archived, body=lambda scene: {}),
    Route("POST", VERSION + "verify/", Right.MODELS_WRITE, fill=_ready, body=lambda scene: {}, status=202),
    Route("POST", VERSION + "tags/", Right.MODELS_WRITE, fill=_ready, body=lambda scene: {"add": ["good"]}),
    Route("POST", VERSION + "retry/", Right.MODELS_WRITE, fill=_failed, body=lambda scene: {}, status=202),
    Route("GET", UPLOADS, Right.READ, fill=_model),
    Route(
        "POST",
        UPLOADS,
        Right.MODELS_WRITE,
        fill=_model,
        body=lambda scene: {"files": [EMPTY_OBJECT]},
        status=201,
    ),
    Route("GET", UPLOAD, Right.READ, fill=_upload),
    Route("GET", UPLOAD + "blobs/{sha256}/", Right.READ, fill=_upload),
    Route("PUT", UPLOAD + "blobs/{sha256}/", Right.MODELS_WRITE, fill=_upload, body=lambda scene: {}),
    Route(
        "POST",
        UPLOAD + "complete/",
        Right.MODELS_WRITE,
        fill=_whole_upload,
        body=lambda scene: {},
        status=202,
    ),
    Route("POST", UPLOAD + "cancel/", Right.MODELS_WRITE, fill=_upload, body=lambda scene: {}),
    Route("GET", STORAGE, Right.READ, fill=_team),
    Route(
        "PUT",
        STORAGE,
        Access.ADMINISTRATOR,
        fill=_team,
        body=lambda scene: {"limit_bytes": 1_000_000, "reason": "its share"},
    ),
    Route("GET", "models/{model}/aliases/", Right.READ, fill=_model),
    Route("GET", ALIAS, Right.READ, fill=_alias),
    Route(
        "PUT",
        ALIAS,
        Right.MODELS_WRITE,
        fill=_alias,
        body=lambda scene: {"version": scene.version("ready", "v2").name, "reason": "better"},
    ),
    Route("DELETE", ALIAS, Right.MODELS_WRITE, fill=_alias, status=204),
    Route("GET", ALIAS + "history/", Right.READ, fill=_alias),
    Route("GET", "code-exemptions/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "code-exemptions/",
        Right.CODE_EXEMPT,
        body=lambda scene: {"team": scene.team.name, "reason": "read", "until": scene.soon},
        status=201,
        owned=False,
    ),
    Route("GET", "code-exemptions/{id}/", Right.READ, fill=_exemption),
    Route(
        "POST",
        "code-exemptions/{id}/end/",
        Right.CODE_EXEMPT,
        fill=_exemption,
        body=lambda scene: {"reason": "needed no more"},
    ),
    Route("GET", "trusted-keys/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "trusted-keys/",
        Right.SIGNATURES_ADMIN,
        body=lambda scene: {
            "team": scene.team.name,
            "name": new_name(),
            "pem": scene.public_key,
            "reason": "known",
        },
        status=201,
        owned=False,
    ),
    Route("GET", "trusted-keys/{id}/", Right.READ, fill=_trusted_key),
    Route(
        "POST",
        "trusted-keys/{id}/remove/",
        Right.SIGNATURES_ADMIN,
        fill=_trusted_key,
        body=lambda scene: {"reason": "lost"},
    ),
    Route("GET", "signature-policies/{team}/", Right.READ, fill=_policy),
    Route(
        "PUT",
        "signature-policies/{team}/",
        Right.SIGNATURES_ADMIN,
        fill=_policy,
        body=lambda scene: {"demand": "require", "reason": "needed"},
    ),
    Route("GET", "import-places/", Right.MODELS_WRITE, owned=False),
    Route("GET", "signing/", Access.SIGNED_IN, owned=False),
    Route("GET", VERSION + "signature/", Right.READ, fill=_signed),
    Route("GET", "hub-sources/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "hub-sources/",
        Right.MODELS_WRITE,
        body=lambda scene: {"model": scene.model.name, "repo_id": "acme/other"},
        status=201,
        owned=False,
    ),
    Route("GET", HUB_SOURCE, Right.READ, fill=_hub_source),
    Route("PATCH", HUB_SOURCE, Right.MODELS_WRITE, fill=_hub_source, body=lambda scene: {"every": 3600}),
    Route("DELETE", HUB_SOURCE, Right.MODELS_WRITE, fill=_hub_source, status=204),
    Route("POST", HUB_SOURCE + "sync/", Right.MODELS_WRITE, fill=_hub_source, status=202),
    Route("POST", HUB_SOURCE + "notice-secret/", Right.MODELS_WRITE, fill=_hub_source),
    Route("GET", "hub-syncs/", Access.SIGNED_IN, owned=False),
    Route("GET", HUB_SYNC, Right.READ, fill=_sync("done")),
    Route("GET", HUB_SYNC + "events/", Right.READ, fill=_sync("done")),
    _sync_wish("pause", "fetching"),
    _sync_wish("resume", "paused"),
    _sync_wish("cancel", "fetching"),
    _sync_wish("retry", "failed"),
    Route("GET", "exports/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "exports/",
        Right.MODELS_EXPORT,
        body=_new_export,
        status=202,
        owned=False,
    ),
    Route("GET", EXPORT, Right.READ, fill=_export("done")),
    Route("GET", EXPORT + "events/", Right.READ, fill=_export("done")),
    _export_wish("pause", "sending"),
    _export_wish("resume", "paused"),
    _export_wish("cancel", "sending"),
    _export_wish("retry", "failed"),
    Route("GET", RETENTION, Right.READ, fill=_ruled),
    Route("PUT", RETENTION, Right.MODELS_WRITE, fill=_ruled, body=lambda scene: {"keep_last": 3}),
    Route("DELETE", RETENTION, Right.MODELS_WRITE, fill=_ruled, status=204),
    Route("GET", RETENTION + "preview/", Right.READ, fill=_ruled),
    Route(
        "POST",
        RETENTION + "apply/",
        Right.MODELS_WRITE,
        fill=_ruled,
        body=lambda scene: {"preview": retention_preview(scene.rule, timezone.now()).fingerprint},
        status=202,
    ),
    Route(
        "POST",
        RETENTION + "stop/",
        Right.MODELS_WRITE,
        fill=lambda scene: {"model": scene.rule.model.name},
        body=lambda scene: {},
    ),
    Route("GET", "store/", Access.ADMINISTRATOR, owned=False),
    Route("GET", "store/teams/", Access.ADMINISTRATOR, owned=False),
    Route("GET", "store/collections/", Access.ADMINISTRATOR, owned=False),
    Route(
        "POST",
        "store/collections/",
        Access.ADMINISTRATOR,
        body=lambda scene: {"reason": "full"},
        status=202,
        owned=False,
    ),
    Route("GET", "store/collections/{id}/", Access.ADMINISTRATOR, fill=_collection, owned=False),
    Route("GET", "store/checks/", Access.ADMINISTRATOR, owned=False),
    Route("POST", "store/checks/", Access.ADMINISTRATOR, body=lambda scene: {}, status=202, owned=False),
    Route("GET", "store/checks/{id}/", Access.ADMINISTRATOR, fill=_check, owned=False),
    Route("GET", "store/findings/", Access.ADMINISTRATOR, owned=False),
    Route("GET", "store/findings/{id}/", Access.ADMINISTRATOR, fill=_corrupt_blob, owned=False),
    Route(
        "POST",
        "store/findings/{id}/retry/",
        Access.ADMINISTRATOR,
        fill=_corrupt_blob,
        body=lambda scene: {},
        status=202,
        owned=False,
    ),
]
