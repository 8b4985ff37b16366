"""Questions about images, in words, as the rules take them."""

from django.utils.translation import gettext as _

from common.actor import Actor
from common.errors import Invalid
from images import rules, selectors, versions
from models_registry.errors import UnknownModel, UnknownVersion
from models_registry.models import Version
from models_registry.selectors import catalogue
from models_registry.selectors import versions as version_selectors
from serving.engines.registry import ENGINES

NO_GPU = ("none", "cpu")


def wish_of(
    actor: Actor,
    *,
    engine: str,
    engine_version: str = "",
    gpu: str = "",
    driver: str = "",
    model: str = "",
    version: str = "",
) -> rules.ImageRequirements:
    """`gpu` is a name, a compute capability, or `none`; empty: not known. Raises Invalid."""
    if engine not in ENGINES:
        raise Invalid(fields={"engine": [_("Say which: %(engines)s.") % {"engines": ", ".join(ENGINES)}]})
    if driver and not versions.numbers(driver):
        raise Invalid(
            fields={
                "driver": [
                    _("'%(driver)s' is no version; give one such as 550.54.14.") % {"driver": driver[:20]}
                ]
            }
        )
    gpus: tuple[rules.GpuDescription, ...] | None = (
        (rules.GpuDescription(gpu.strip(), driver.strip()),) if gpu.strip() else None
    )
    if gpu.strip().lower() in NO_GPU:
        gpus = ()
    return rules.ImageRequirements(
        engine=engine,
        engine_version=engine_version.strip(),
        gpus=gpus,
        model=selectors.model_of(_version(actor, model, version)),
    )


def _version(actor: Actor, model: str, version: str) -> Version | None:
    """The newest ready one unless another is asked for."""
    if not model:
        if version:
            raise Invalid(fields={"model": [_("Say which model the version is of.")]})
        return None
    try:
        return version_selectors.resolve(actor, f"{model}:{version}") if version else _latest(actor, model)
    except UnknownModel as error:
        raise Invalid(fields={"model": [str(error)]}) from None
    except UnknownVersion as error:
        raise Invalid(fields={"version": [str(error)]}) from None


def _latest(actor: Actor, model: str) -> Version:
    latest = catalogue.model_named(actor, model).latest
    if latest is None:
        raise UnknownVersion(_("%(model)s has no ready version yet.") % {"model": model})
    return latest
