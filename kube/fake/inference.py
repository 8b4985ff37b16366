"""InferencePool, after the v1 of the Gateway API Inference Extension.

https://gateway-api-inference-extension.sigs.k8s.io/reference/spec. Fields, defaults and limits are those that
Slipway writes or reads.
"""

import json

from kube.fake.gateway_api import ANYTHING, NAME, PORT, TEXT, many, struct, with_default
from kube.fake.kinds import ObjectKind
from kube.fake.schema import of_definition

_NUMBER = struct(("number",), number=PORT)
_PICKER = struct(
    ("name",),
    group=with_default({"type": "string", "maxLength": 253}, ""),
    kind=with_default(TEXT, "Service"),
    name=NAME,
    port=_NUMBER,
    failureMode=with_default({"type": "string", "enum": ["FailOpen", "FailClose"]}, "FailClose"),
)
_POOL = struct(
    ("spec",),
    spec=struct(
        ("endpointPickerRef", "selector", "targetPorts"),
        appProtocol=with_default(TEXT, "http"),
        endpointPickerRef=_PICKER,
        selector=struct(("matchLabels",), matchLabels=ANYTHING),
        targetPorts=many(_NUMBER, most=8, least=1),
    ),
    status=ANYTHING,
)


def inference_pool() -> ObjectKind:
    whole = json.loads(json.dumps(_POOL))
    return ObjectKind(
        "inference.networking.k8s.io",
        "v1",
        "InferencePool",
        "inferencepools",
        shape=of_definition(whole),
        subresources=frozenset({"status"}),
        has_generation=True,
        is_custom=True,
        openapi=whole,
    )
