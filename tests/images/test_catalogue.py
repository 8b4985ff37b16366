"""The catalogue of images: entries, changes, and rights."""

import pytest

from accounts.actors import of_user
from accounts.errors import NotAdministrator, RightMissing
from accounts.states import Role
from common import audit
from common.errors import Invalid, Stale
from images import selectors, services
from images.errors import ImageFrozen, ImageNameTaken, ImageNotDeprecated, InvalidImage
from images.models import RuntimeImage
from images.references import reference_of
from images.rules import GpuDescription, ImageRequirements
from tests.cast import SYSTEM, person, team
from tests.images.builders import digest_of, image, reference

pytestmark = pytest.mark.django_db


def faults(error: pytest.ExceptionInfo[Invalid]) -> dict[str, list[str]]:
    return error.value.fields


def test_a_tag_alone_is_refused_with_what_to_do() -> None:
    with pytest.raises(Invalid) as refused:
        reference_of("registry.example.org/vllm:v0.10")
    assert "crane digest registry.example.org/vllm:v0.10" in faults(refused)["reference"][0]
    digest = digest_of("x")
    assert str(reference_of(f"registry.example.org:5000/a/vllm:v1@{digest}")) == (
        f"registry.example.org:5000/a/vllm@{digest}"
    )


@pytest.mark.any_database
@pytest.mark.parametrize(
    "text",
    [
        "vllm@sha256:abc",
        f"vllm@sha512:{'0' * 64}",
        f"https://registry.example.org/vllm@sha256:{'0' * 64}",
        f"Vllm@sha256:{'0' * 64}",
        f"a//b@sha256:{'0' * 64}",
        f"a b@sha256:{'0' * 64}",
        f"{'a' * 600}@sha256:{'0' * 64}",
        f"@sha256:{'0' * 64}",
        f"a@sha256:{'G' * 64}",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        reference_of(text)


@pytest.mark.any_database
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"engine": "nonsense"}, "engine"),
        ({"engine_version": "latest"}, "engine_version"),
        ({"cuda_version": "twelve"}, "cuda_version"),
        ({"least_driver": "new"}, "least_driver"),
        ({"code": ["hopper"]}, "code"),
        ({"formats": ["pickle"]}, "formats"),
        ({"cuda_version": "", "code": []}, "runs_on_cpu"),
        ({"cuda_version": ""}, "cuda_version"),
        ({"acceleration": "magic"}, "acceleration"),
        ({"acceleration": "prepull"}, "acceleration_why"),
        ({"mirrors": {"eu": "not a repository"}}, "mirrors"),
        ({"mirrors": {"eu": f"mirror.example.org/vllm@{digest_of('other')}"}}, "mirrors"),
        ({"mirrors": {"": "mirror.example.org/vllm"}}, "mirrors"),
    ],
)
def test_what_cannot_be_is_told_at_its_field(fields, field) -> None:
    with pytest.raises(Invalid) as refused:
        image(**fields)
    assert field in faults(refused)
    assert not RuntimeImage.objects.exists()


def test_a_name_and_a_content_stand_in_the_catalogue_once() -> None:
    image("vllm-10")
    with pytest.raises(ImageNameTaken, match="The name vllm-10 is taken"):
        image("vllm-10", reference=reference("else"))
    with pytest.raises(ImageNameTaken, match="This content is in the catalogue already, as vllm-10"):
        image("copy", reference=reference("vllm-10"))
    with pytest.raises(InvalidImage):
        image("fit")
    assert image("copy", team("speech"), reference=reference("vllm-10")).digest == digest_of("vllm-10")


def test_what_an_image_contains_never_changes() -> None:
    row = image()
    with pytest.raises(ImageFrozen):
        RuntimeImage.objects.filter(pk=row.pk).update(digest=digest_of("other"))
    row.cuda_version = "13.0"
    with pytest.raises(ImageFrozen):
        row.save()
    with pytest.raises(ImageFrozen):
        row.delete()


def test_mirrors_hold_the_same_digest_and_are_changed_by_compare_and_set() -> None:
    row = image()
    services.change_image(
        actor=SYSTEM,
        image=row,
        mirrors={"eu": f"mirror.example.org/vllm@{row.digest}", "us": "us.example.org/vllm"},
        expected=row.revision,
    )
    assert row.reference_in("eu") == f"mirror.example.org/vllm@{row.digest}"
    assert row.reference_in("asia") == row.reference
    with pytest.raises(Stale):
        services.change_image(actor=SYSTEM, image=row, mirrors={}, expected=1)
    assert audit.verify().intact


def test_a_deprecated_image_names_its_successor_and_can_be_reinstated() -> None:
    old, new = image("vllm-9", engine_version="0.9.0"), image("vllm-10")
    other = image("tgi-3", engine="tgi")
    for wrong in (old, other):
        with pytest.raises(InvalidImage):
            services.deprecate_image(actor=SYSTEM, image=old, reason="x", replaced_by=wrong)
    services.deprecate_image(actor=SYSTEM, image=old, reason="CVE", replaced_by=new)
    choice = selectors.chosen(
        RuntimeImage.objects.all(), ImageRequirements("vllm", gpus=(GpuDescription("A100", "580"),))
    )
    assert choice.best is not None
    assert choice.best.image.name == "vllm-10"
    assert choice.others[0].why.endswith(", use vllm-10.")
    services.reinstate_image(actor=SYSTEM, image=old, reason="not affected")
    assert selectors.deprecation(old) == ""
    with pytest.raises(ImageNotDeprecated):
        services.reinstate_image(actor=SYSTEM, image=old, reason="again")


def test_a_trial_that_failed_says_how_and_keeps_the_image_from_that_gpu(django_assert_num_queries) -> None:
    row = image()
    with pytest.raises(InvalidImage):
        services.note_trial(actor=SYSTEM, image=row, gpu="A100", outcome="fails")
    services.note_trial(actor=SYSTEM, image=row, gpu="A100", outcome="fails", words="hangs")
    wish = ImageRequirements("vllm", gpus=(GpuDescription("NVIDIA A100-SXM4-80GB", "580"),))
    assert selectors.chosen(RuntimeImage.objects.all(), wish).best is None
    services.note_trial(actor=SYSTEM, image=row, gpu="A100", outcome="works")
    usable = selectors.usable_by(team("speech"))
    with django_assert_num_queries(3):
        assert selectors.chosen(usable, wish).best is not None


def test_operators_keep_their_teams_images_and_administrators_the_shared_ones() -> None:
    olga, dev = of_user(person("olga", speech=Role.OPERATOR)), of_user(person("dev", speech=Role.DEVELOPER))
    mine = {"engine": "vllm", "engine_version": "1", "reference": reference("a"), "cuda_version": "12.4"}
    with pytest.raises(RightMissing):
        services.add_image(actor=dev, team=team("speech"), name="a", **mine)
    with pytest.raises(NotAdministrator):
        services.add_image(actor=olga, team=None, name="a", **mine)
    row = services.add_image(actor=olga, team=team("speech"), name="a", **mine)
    shared = image("shared")
    outsider = of_user(person("eve", vision=Role.ADMIN))
    assert [one.name for one in selectors.images(outsider)] == ["shared"]
    assert [one.name for one in selectors.images(dev)] == ["a", "shared"]
    assert set(selectors.usable_by(team("vision"))) == {shared}
    with pytest.raises(RightMissing):
        services.change_image(actor=dev, image=row, description="x")
