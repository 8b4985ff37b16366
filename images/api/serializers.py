"""Images over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from images.api import examples
from images.models import ImagePullFailure, ImageTrial, RuntimeImage
from images.presets import PRESETS
from images.references import MAX_REFERENCE
from images.refreshing import RefreshOutcome
from images.rules import RefusalSubject
from images.services import FORMATS, MAX_CODE
from images.states import Acceleration, ImageState, TrialOutcome
from serving.engines.registry import ENGINES

CODE = (
    "Compute capabilities: `9.0`, `9.0a`, `9.0+PTX`, or `sm_90` as `torch.cuda.get_arch_list()` prints "
    "them; empty: unknown."
)
ACCELERATION = "Image acceleration; empty: pulled as a whole."


class MirrorsMapField(serializers.DictField):
    """Mirrors by region: repositories in rows, whole references in answers."""

    child = serializers.CharField(max_length=MAX_REFERENCE + 80)


class PullFailureSerializer(serializers.ModelSerializer[ImagePullFailure]):
    class Meta:
        model = ImagePullFailure
        fields = ("cluster", "reason", "since", "at")


@example(examples.IMAGE)
class ImageSerializer(serializers.ModelSerializer[RuntimeImage]):
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="null: shared by all teams."
    )
    engine = serializers.ChoiceField(choices=tuple(ENGINES))
    reference = serializers.CharField(help_text="`repository@sha256:...`")
    cuda_version = serializers.CharField(help_text="Empty: no CUDA.")
    least_driver = serializers.CharField(help_text="Empty: as its CUDA version requires.")
    code = serializers.ListField(child=serializers.CharField(), help_text=CODE)
    formats = serializers.ListField(
        child=serializers.ChoiceField(choices=FORMATS),
        help_text="Supported weight formats; empty: unknown.",
    )
    size_bytes = serializers.IntegerField(help_text="Compressed size; 0: unknown.")
    mirrors = serializers.SerializerMethodField(help_text="Image reference by region.")
    acceleration = serializers.ChoiceField(choices=Acceleration.choices, help_text=ACCELERATION)
    state = serializers.ChoiceField(choices=ImageState.choices)
    replaced_by = serializers.CharField(source="replaced_by.name", default=None, allow_null=True)
    pull_failures = PullFailureSerializer(
        many=True,
        help_text="Clusters that could not pull it: releases there use it only if it is named, until a pull "
        "succeeds or an operator clears it.",
    )

    class Meta:
        model = RuntimeImage
        fields: tuple[str, ...] = (
            "name",
            "team",
            "engine",
            "engine_version",
            "reference",
            "cuda_version",
            "least_driver",
            "code",
            "formats",
            "runs_on_cpu",
            "size_bytes",
            "description",
            "mirrors",
            "acceleration",
            "acceleration_why",
            "state",
            "deprecated_at",
            "deprecated_by",
            "deprecated_why",
            "replaced_by",
            "pull_failures",
            "created_at",
            "created_by",
        )

    def get_mirrors(self, row: RuntimeImage) -> dict[str, str]:
        return {region: row.reference_in(region) for region in row.mirrors}


@example(examples.TRIAL)
class TrialSerializer(serializers.ModelSerializer[ImageTrial]):
    outcome = serializers.ChoiceField(choices=TrialOutcome.choices)

    class Meta:
        model = ImageTrial
        fields = ("gpu", "driver", "architecture", "outcome", "words", "at", "by")


@example(examples.IMAGE_DETAIL)
class ImageDetailSerializer(ImageSerializer):
    trials = TrialSerializer(many=True, help_text="Trials, newest first.")

    class Meta(ImageSerializer.Meta):
        fields = (*ImageSerializer.Meta.fields, "trials")


class _ChangeableSerializer(serializers.Serializer[Any]):
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
    mirrors = MirrorsMapField(
        required=False,
        help_text="By region: the repository there, or a reference with the image's digest.",
    )
    acceleration = serializers.ChoiceField(
        choices=Acceleration.choices, required=False, allow_blank=True, help_text=ACCELERATION
    )
    acceleration_why = serializers.CharField(
        max_length=500, required=False, allow_blank=True, help_text="Reason; required with an acceleration."
    )


@example(examples.NEW_IMAGE)
class NewImageSerializer(_ChangeableSerializer):
    name = serializers.CharField(max_length=95)
    team = serializers.CharField(
        max_length=63,
        required=False,
        allow_null=True,
        help_text="Owner; default: shared by all teams.",
    )
    engine = serializers.ChoiceField(choices=tuple(ENGINES))
    reference = serializers.CharField(
        max_length=MAX_REFERENCE + 80, help_text="`repository@sha256:...`; a tag alone is refused."
    )
    engine_version = serializers.CharField(max_length=50)
    cuda_version = serializers.CharField(max_length=20, required=False, allow_blank=True)
    least_driver = serializers.CharField(
        max_length=20,
        required=False,
        allow_blank=True,
        help_text="Minimum driver version; default: as its CUDA version requires.",
    )
    code = serializers.ListField(
        child=serializers.CharField(max_length=20), max_length=MAX_CODE, required=False, help_text=CODE
    )
    formats = serializers.ListField(child=serializers.ChoiceField(choices=FORMATS), required=False)
    runs_on_cpu = serializers.BooleanField(required=False)
    size_bytes = serializers.IntegerField(min_value=0, max_value=2**50, required=False)


@example(examples.IMAGE_CHANGE)
class ImageChangeSerializer(_ChangeableSerializer):
    pass


@example(examples.DEPRECATION)
class DeprecationSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON)
    replaced_by = serializers.CharField(
        max_length=95, required=False, allow_null=True, help_text="Replacement: an image of the same engine."
    )


@example(examples.REINSTATEMENT)
class ReinstatementSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.CLEARED_PULL_FAILURE)
class ClearedPullFailureSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField(max_length=63)
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.NEW_TRIAL)
class NewTrialSerializer(serializers.Serializer[Any]):
    gpu = serializers.CharField(max_length=100, help_text="As `nvidia-smi` names it, or shorter: `H100`.")
    driver = serializers.CharField(max_length=20, required=False, allow_blank=True)
    architecture = serializers.CharField(
        max_length=200, required=False, allow_blank=True, help_text="Model architecture; empty: any."
    )
    outcome = serializers.ChoiceField(choices=TrialOutcome.choices)
    words = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.REFRESH)
class RefreshSerializer(serializers.Serializer[Any]):
    registry = serializers.CharField(
        max_length=MAX_REFERENCE,
        help_text="Address of the registry, with the path below which it mirrors others.",
    )
    presets = serializers.ListField(
        child=serializers.ChoiceField(choices=list(PRESETS)), required=False, help_text="Default: all."
    )
    team = serializers.CharField(
        max_length=63, required=False, allow_null=True, help_text="Owner; default: shared by all teams."
    )
    tag = serializers.CharField(
        max_length=128, required=False, help_text="This tag of the one preset; default: the newest."
    )
    platform = serializers.CharField(
        max_length=50, required=False, help_text="Whose size and configuration are read of an index."
    )
    pull_secret = serializers.CharField(
        max_length=20_000, required=False, write_only=True, help_text="`.dockerconfigjson`; not stored."
    )
    add = serializers.BooleanField(required=False, help_text="Add what is new; default: propose only.")


@example(examples.PROPOSAL)
class ProposalSerializer(serializers.Serializer[Any]):
    preset = serializers.CharField()
    outcome = serializers.ChoiceField(
        choices=[one.value for one in RefreshOutcome],
        help_text="`moved`: the tag named other content before, whose image stays.",
    )
    tag = serializers.CharField()
    name = serializers.CharField(help_text="Name in the catalogue.")
    reference = serializers.CharField()
    engine = serializers.CharField()
    engine_version = serializers.CharField()
    cuda_version = serializers.CharField(help_text="Empty: none.")
    code = serializers.ListField(child=serializers.CharField(), help_text=CODE)
    size_bytes = serializers.IntegerField(help_text="Compressed.")
    is_added = serializers.BooleanField()
    problem = serializers.CharField(help_text="Empty: none.")


class AskedGpuSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    driver = serializers.CharField()
    compute_capability = serializers.CharField(source="capability", help_text="Empty: unknown.")


class AskedModelSerializer(serializers.Serializer[Any]):
    format = serializers.CharField()
    architecture = serializers.CharField()
    dtype = serializers.CharField()
    quantization = serializers.CharField()
    weights_bytes = serializers.IntegerField(allow_null=True)


class ImageRefusalSerializer(serializers.Serializer[Any]):
    fact = serializers.ChoiceField(choices=[fact.value for fact in RefusalSubject])
    sentence = serializers.CharField()


class JudgedImageSerializer(serializers.Serializer[Any]):
    image = serializers.CharField(source="image.name")
    fits = serializers.BooleanField()
    why = serializers.CharField(help_text="Reason why it is, or is not, the best match.")
    refusals = ImageRefusalSerializer(many=True, help_text="Incompatibilities; empty: compatible.")
    doubts = serializers.ListField(child=serializers.CharField(), help_text="Checks that were not possible.")


@example(examples.FIT)
class FitSerializer(serializers.Serializer[Any]):
    engine = serializers.CharField(source="wish.engine")
    gpus = AskedGpuSerializer(source="wish.gpus", many=True, allow_null=True, help_text="null: unknown.")
    model = AskedModelSerializer(source="wish.model")
    best = JudgedImageSerializer(allow_null=True, help_text="null: no compatible image.")
    others = JudgedImageSerializer(many=True, help_text="Compatible images first, best first.")
