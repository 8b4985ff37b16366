"""The engines that are known, own and foreign ones, by name. Standard library only."""

from collections.abc import Mapping

from serving.engines.spec import EngineSpec
from serving.engines.specs import (
    app,
    echo,
    llama_cpp,
    openai,
    sglang,
    tensorrt_llm,
    tgi,
    transformers,
    triton,
    vllm,
)

ENGINES: Mapping[str, EngineSpec] = {
    spec.name: spec
    for spec in (
        transformers.SPEC,
        vllm.SPEC,
        sglang.SPEC,
        tensorrt_llm.SPEC,
        llama_cpp.SPEC,
        app.SPEC,
        echo.SPEC,
        tgi.SPEC,
        triton.SPEC,
        openai.SPEC,
        # Known by their images alone.
        EngineSpec(name="onnxruntime", formats=("onnx",)),
        EngineSpec(name="diffusers", formats=("safetensors",)),
        EngineSpec(name="comfyui", formats=("safetensors",)),
    )
}
WORKER_ENGINES = tuple(name for name, spec in ENGINES.items() if spec.in_worker)
"""Those that our worker runs."""
SERVED_ENGINES = tuple(name for name, spec in ENGINES.items() if spec.is_served)
"""All that a service may name."""
POD_ENGINES = tuple(name for name, spec in ENGINES.items() if spec.pod_server is not None)
"""Those whose makers' images speak OpenAI's API by themselves."""
IMAGE_ENGINES = tuple(
    name for name in POD_ENGINES if not (ENGINES[name].in_worker and ENGINES[name].has_worker_image)
)
"""Those that pods run by such an image, whatever the service says; `openai`: any other server of its API."""
READ_ENGINES = tuple(
    name for name, spec in ENGINES.items() if spec.metrics is not None and spec.metrics.present
)
"""Those whose metrics are understood whatever their service says of them."""
