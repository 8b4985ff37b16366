"""Fluid's kinds, as far as Slipway writes or reads them: fields pass as they come, nobody acts on them."""

from kube.fake.gateway_api import ANYTHING, struct
from kube.fake.kinds import Kind
from kube.fake.schema import of_definition

GROUP, VERSION = "data.fluid.io", "v1alpha1"


def fluid() -> tuple[Kind, ...]:
    kinds = {
        "Dataset": "datasets",
        "DataLoad": "dataloads",
        "AlluxioRuntime": "alluxioruntimes",
        "JindoRuntime": "jindoruntimes",
        "JuiceFSRuntime": "juicefsruntimes",
    }
    return tuple(_kind(name, plural) for name, plural in kinds.items())


def _kind(name: str, plural: str) -> Kind:
    schema = struct((), spec=ANYTHING, status=ANYTHING)
    return Kind(
        GROUP,
        VERSION,
        name,
        plural,
        shape=of_definition(schema),
        subresources=frozenset({"status"}),
        has_generation=True,
        is_custom=True,
        openapi=schema,
    )
