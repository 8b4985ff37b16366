from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.api.examples import example
from common.api.rows import ProgressSerializer, StuckField
from common.audit import MAX_REASON
from models_registry.api import examples
from models_registry.api.facts import FactsSerializer
from models_registry.models import Alias, AliasMove, Version, VersionSignature
from models_registry.selectors import versions
from models_registry.selectors.catalogue import ModelCard
from models_registry.selectors.versions import VersionCard
from models_registry.states import SignatureOrigin, VersionState
from trust.signature_policy import STANDINGS
from trust.states import SignatureVerdict


class LatestVersionSerializer(serializers.Serializer[Version]):
    name = serializers.CharField()
    digest = serializers.CharField()
    size_bytes = serializers.IntegerField()
    architecture = serializers.CharField()
    parameters = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()


class AliasOfModelSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.CharField()


@example(examples.MODEL)
class ModelSerializer(serializers.Serializer[ModelCard]):
    name = serializers.CharField(source="model.name")
    team = serializers.CharField(source="model.team.name")
    task = serializers.CharField(source="model.task")
    description = serializers.CharField(source="model.description")
    latest_version = LatestVersionSerializer(
        source="latest", allow_null=True, help_text="Newest ready version."
    )
    aliases = AliasOfModelSerializer(many=True)
    protected_aliases = serializers.ListField(
        source="model.protected_aliases",
        child=serializers.CharField(),
        help_text="Aliases that only the right `aliases.protected` may create, move or delete.",
    )
    version_count = serializers.IntegerField(help_text="Number of ready versions.")
    size_bytes = serializers.IntegerField(
        help_text="Total size of all ready versions, without deduplication."
    )
    served = serializers.ListField(child=serializers.CharField(), help_text="Uses of its versions.")
    created_at = serializers.DateTimeField(source="model.created_at")
    created_by = serializers.CharField(source="model.created_by_name")


def model_shown(card: ModelCard) -> dict[str, Any]:
    """Return the output of `ModelSerializer` for a card, several times faster: lists may have a thousand
    of them.
    """
    latest = card.latest and {
        "name": card.latest.name,
        "digest": card.latest.digest,
        "size_bytes": card.latest.size_bytes,
        "architecture": card.latest.architecture,
        "parameters": card.latest.parameters,
        "created_at": card.latest.created_at,
    }
    return {
        "name": card.model.name,
        "team": card.model.team.name,
        "task": card.model.task,
        "description": card.model.description,
        "latest_version": latest,
        "aliases": [{"name": alias.name, "version": alias.version} for alias in card.aliases],
        "protected_aliases": card.model.protected_aliases,
        "version_count": card.version_count,
        "size_bytes": card.size_bytes,
        "served": card.served,
        "created_at": card.model.created_at,
        "created_by": card.model.created_by_name,
    }


@example(examples.NEW_MODEL)
class NewModelSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(
        max_length=200, help_text="Characters a-z, 0-9, '.', '_' and '-'; unique across all teams."
    )
    task = serializers.CharField(max_length=100, required=False, allow_blank=True)
    description = serializers.CharField(max_length=10_000, required=False, allow_blank=True)
    team = serializers.CharField(
        max_length=63, required=False, help_text="Owner; required if you belong to several teams."
    )


@example(examples.MODEL_CHANGE)
class ModelChangeSerializer(serializers.Serializer[Any]):
    task = serializers.CharField(max_length=100, required=False, allow_blank=True)
    description = serializers.CharField(max_length=10_000, required=False, allow_blank=True)
    protected_aliases = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, help_text="Replaces the current ones."
    )


class SourceSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=["directory", "hub", "upload"])
    uri = serializers.CharField(
        help_text="`file:///directory`, `file://host/directory`, `hf://org/name@revision` or `upload://id`."
    )
    endpoint = serializers.CharField(default="", help_text="URL of the hub; empty: a directory.")
    commit = serializers.CharField(default="", help_text="Commit that the revision resolved to.")
    allow_patterns = serializers.ListField(child=serializers.CharField(), default=list)
    ignore_patterns = serializers.ListField(child=serializers.CharField())
    uploaded_by = serializers.CharField(default="", help_text="Empty: not uploaded.")
    address = serializers.CharField(default="", help_text="Address of the uploader.")
    origin = serializers.CharField(default="", help_text="Origin as given by the uploader.")


class OneSignatureSerializer(serializers.Serializer[VersionSignature]):
    origin = serializers.ChoiceField(
        choices=SignatureOrigin.choices, help_text="`files`: among the files; `slipway`: made by the server."
    )
    verdict = serializers.ChoiceField(
        choices=SignatureVerdict.choices,
        help_text="State at the last verification. `missing`: not signed yet.",
    )
    reason = serializers.CharField(help_text="Reason why it is not valid.")
    fingerprint = serializers.CharField(help_text="Key fingerprint: sha256 of the public key in PEM format.")
    key = serializers.SerializerMethodField(help_text="Name of the trusted key, if the team trusts it.")
    verified_at = serializers.DateTimeField()

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_key(self, row: VersionSignature) -> str | None:
        return row.key.name if row.key and row.key.is_in_force else None


class SignatureSerializer(serializers.Serializer[VersionCard]):
    standing = serializers.ChoiceField(source="standing.name", choices=STANDINGS)
    reason = serializers.CharField(source="standing.reason")
    made = OneSignatureSerializer(source="signatures", many=True)


@example(examples.VERSION)
class VersionSerializer(serializers.Serializer[VersionCard]):
    model = serializers.CharField(source="version.model.name")
    name = serializers.CharField(source="version.name")
    number = serializers.IntegerField(source="version.number")
    state = serializers.ChoiceField(source="version.state", choices=VersionState.choices)
    reason = serializers.CharField(source="version.reason", help_text="Reason why it failed or was refused.")
    stuck = StuckField(source="version")
    digest = serializers.CharField(
        source="version.digest",
        allow_null=True,
        help_text="sha256 of the `sha256sum` output for its files in byte order of their paths.",
    )
    size_bytes = serializers.IntegerField(source="version.size_bytes")
    file_count = serializers.IntegerField(source="version.file_count")
    architecture = serializers.CharField(source="version.architecture")
    parameters = serializers.IntegerField(source="version.parameters", allow_null=True)
    context_length = serializers.IntegerField(source="version.context_length", allow_null=True)
    dtype = serializers.CharField(source="version.dtype")
    quantization = serializers.CharField(source="version.quantization")
    message = serializers.CharField(source="version.message")
    author = serializers.CharField(source="version.author_name")
    source = SourceSerializer(source="version.source")  # type: ignore[assignment]
    signature = serializers.SerializerMethodField(help_text="null: unsigned.")
    progress = ProgressSerializer(source="version")
    aliases = serializers.ListField(child=serializers.CharField())
    tags = serializers.ListField(child=serializers.CharField())
    served = serializers.ListField(child=serializers.CharField(), help_text="Uses of the version.")
    same_content_as = serializers.CharField(
        help_text="First version of this model with the same content; empty: this one."
    )
    created_at = serializers.DateTimeField(source="version.created_at")
    ready_at = serializers.DateTimeField(source="version.ready_at", allow_null=True)

    @extend_schema_field(SignatureSerializer(allow_null=True))
    def get_signature(self, card: VersionCard) -> Any:
        return SignatureSerializer(card).data if card.signatures else None


def version_shown(card: VersionCard) -> dict[str, Any]:
    """Return the output of `VersionSerializer` for a card, several times faster: lists may have a thousand
    of them.
    """
    version = card.version
    return {
        "model": version.model.name,
        "name": version.name,
        "number": version.number,
        "state": version.state,
        "reason": version.reason,
        "stuck": version.last_error if version.stuck_at else "",
        "digest": version.digest,
        "size_bytes": version.size_bytes,
        "file_count": version.file_count,
        "architecture": version.architecture,
        "parameters": version.parameters,
        "context_length": version.context_length,
        "dtype": version.dtype,
        "quantization": version.quantization,
        "message": version.message,
        "author": version.author_name,
        "source": {name: version.source.get(name, default) for name, default in _SOURCE.items()},
        "signature": SignatureSerializer(card).data if card.signatures else None,
        "progress": {
            "bytes_done": version.bytes_done,
            "bytes_total": version.bytes_total,
            "files_done": version.files_done,
            "files_total": version.files_total,
            "bytes_per_second": version.bytes_per_second,
            "seconds_left": version.seconds_left,
        },
        "aliases": card.aliases,
        "tags": card.tags,
        "served": card.served,
        "same_content_as": card.same_content_as,
        "created_at": version.created_at,
        "ready_at": version.ready_at,
    }


_SOURCE: dict[str, Any] = {
    "kind": "", "uri": "", "endpoint": "", "commit": "", "allow_patterns": (), "ignore_patterns": (),
    "uploaded_by": "", "address": "", "origin": "",
}  # fmt: skip


class FileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()
    format = serializers.CharField()


class VersionMoveSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    from_state = serializers.CharField()
    to_state = serializers.CharField()
    by = serializers.CharField()
    reason = serializers.CharField()


@example(examples.VERSION_DETAIL)
class VersionDetailSerializer(VersionSerializer):
    """A version in detail."""

    files = serializers.SerializerMethodField()
    config = serializers.JSONField(source="version.config")
    facts = FactsSerializer(
        source="version.facts", allow_null=True, help_text="null: not read from the files yet."
    )
    scan = serializers.JSONField(source="version.scan")
    lineage = serializers.SerializerMethodField(
        help_text="`parent` is a version, as `model:name`; the rest is as given by its author."
    )
    history = serializers.SerializerMethodField()

    @extend_schema_field(FileSerializer(many=True))
    def get_files(self, card: VersionCard) -> Any:
        return list(versions.version_files(card.version).values("path", "size", "sha256", "format"))

    @extend_schema_field({"type": "object", "additionalProperties": True})
    def get_lineage(self, card: VersionCard) -> Any:
        return {"parent": str(card.parent) if card.parent else None, **card.version.lineage}

    @extend_schema_field(VersionMoveSerializer(many=True))
    def get_history(self, card: VersionCard) -> Any:
        moves = versions.version_moves(card.version)
        return list(moves.values("at", "from_state", "to_state", "by", "reason"))


@example(examples.NEW_VERSION)
class NewVersionSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(  # type: ignore[assignment]
        max_length=4_096,
        help_text=(
            "A directory in an import root of the server, as an absolute path or `file:///` URL, "
            "`file://host/directory` where several hosts have that root; a repository on a hub, "
            "`hf://org/name@revision`; or a finished upload, `upload://id`."
        ),
    )
    version = serializers.CharField(
        max_length=95, required=False, allow_blank=True, help_text="Version name; default: the next v-number."
    )
    message = serializers.CharField(max_length=4_000, required=False, allow_blank=True)
    lineage = serializers.DictField(
        required=False,
        help_text="Lineage: `parent` (a version, as `v2` or `model:v2`), `base_model` (`model:v2` or "
        "`hf://org/name@revision`), `job` (name or URL of the training job), `data` (names "
        "or URLs of training data), and any further keys.",
    )
    ignore_patterns = serializers.ListField(
        child=serializers.CharField(max_length=200),
        max_length=50,
        required=False,
        help_text="Exclude patterns: shell patterns over whole paths.",
    )


@example(examples.TAGGING)
class TaggingSerializer(serializers.Serializer[Any]):
    add = serializers.ListField(child=serializers.CharField(max_length=63), required=False, max_length=50)
    remove = serializers.ListField(child=serializers.CharField(max_length=63), required=False, max_length=50)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.ALIAS)
class AliasSerializer(serializers.ModelSerializer[Alias]):
    model = serializers.CharField(source="model.name")
    version = serializers.CharField(source="version.name")
    digest = serializers.CharField(source="version.digest")

    class Meta:
        model = Alias
        fields = ("name", "model", "version", "digest", "moved_at", "moved_by", "reason")


@example(examples.ALIAS_PUT)
class AliasPutSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(max_length=95, help_text="A ready version, by name or digest.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.ALIAS_MOVE)
class AliasMoveSerializer(serializers.ModelSerializer[AliasMove]):
    from_version = serializers.CharField(source="from_version.name", default=None, allow_null=True)
    to_version = serializers.CharField(
        source="to_version.name", default=None, allow_null=True, help_text="null: deleted."
    )
    to_digest = serializers.CharField(
        source="to_version.digest",
        default=None,
        allow_null=True,
        help_text="Digest of `to_version`; kept when the version is deleted.",
    )

    class Meta:
        model = AliasMove
        fields = ("alias", "at", "from_version", "to_version", "to_digest", "by", "reason", "release_id")


class FigureSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    dataset = serializers.CharField()
    task = serializers.CharField(help_text="Location in the model card.")
    value = serializers.FloatField()
    unit = serializers.CharField()
    higher_is_better = serializers.BooleanField(
        source="is_higher_better", allow_null=True, help_text="null: unknown."
    )
    origin = serializers.ChoiceField(
        choices=["recorded", "card"], help_text="`card`: from `model-index` of its model card."
    )
    by = serializers.CharField(help_text="Who recorded it; empty: from the model card.")
    at = serializers.DateTimeField(allow_null=True)
    link = serializers.CharField()
