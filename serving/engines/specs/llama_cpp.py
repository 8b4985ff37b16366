"""llama.cpp: `llama-server` with a GGUF file as the worker's child, or its maker's image.

Options and metrics: tools/server/README.md and server-task.cpp. It counts tokens, not requests, and has no
histograms. It loads adapters at its start alone.
"""

from serving.engines.spec import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RERANK,
    RESPONSES,
    EngineSetting,
    EngineSpec,
    MetricNames,
    PodServer,
    ServerProgram,
    count_setting,
    gettext_noop,
)
from serving.engines.specs import shared_settings as shared

SPEC = EngineSpec(
    name="llama.cpp",
    in_worker=True,
    has_worker_image=False,
    apis=frozenset({CHAT, COMPLETIONS, EMBEDDINGS, RERANK, RESPONSES}),
    formats=("gguf",),
    context_setting="ctx_size",
    settings=(
        shared.context("ctx_size"),
        count_setting("threads", gettext_noop("CPU threads"), alias="threads"),
        count_setting(
            "n_gpu_layers",
            gettext_noop("Layers on the GPU"),
            gettext_noop("As many as fit by default."),
            least=0,
            most=10_000,
        ),
        EngineSetting(
            "split_mode",
            gettext_noop("Split over GPUs"),
            "choice",
            choices=("none", "layer", "row", "tensor"),
        ),
        shared.kv_cache_dtype("cache_type_k", gettext_noop("Data type of cached keys")),
        EngineSetting("cache_type_v", gettext_noop("Data type of cached values"), "text"),
        shared.max_sequences("parallel"),
        shared.LOAD_TIMEOUT,
    ),
    program=ServerProgram(
        command=("llama-server", "--model", "{model}"),
        arguments=("--host", "{socket}", "--alias", "{name}", "--metrics", "--jinja"),
        separate_values=True,
        model_file="*.gguf",
        is_named_by_all=False,
        slots_option="parallel",
        refused=(
            r"host|port|model.*|hf-.*|docker-repo|alias|api-key.*|path|api-prefix|ssl-.*|slot-save-path|rpc|tools.*"
            r"|props|log-file|media-path|override-kv|webui.*|ui.*|cors-.*|models-.*|agent.*|mcp.*|chat-template-file"
            r"|spec-draft-model|grammar-file|json-schema-file|lora.*|control-vector.*|mmproj.*"
        ),
    ),
    pod_server=PodServer(
        # Its file has to have this name, or the service says another one by arguments of its own.
        args=(
            "--model",
            "$(MODEL_DIR)/model.gguf",
            "--host",
            "0.0.0.0",  # noqa: S104 - of the pod
            "--port",
            "$(PORT)",
            "--alias",
            "$(MODEL_NAME)",
            "--metrics",
        ),
    ),
    metrics=MetricNames(
        present=("llamacpp:requests_processing",),
        running=("llamacpp:requests_processing",),
        waiting=("llamacpp:requests_deferred",),
        kv_used=("llamacpp:kv_cache_usage_ratio",),
        prompt_tokens=("llamacpp:prompt_tokens_total",),
        completion_tokens=("llamacpp:tokens_predicted_total",),
    ),
)
