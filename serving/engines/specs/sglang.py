"""SGLang: `sglang.launch_server` as the worker's child, or its maker's image.

Options: docs.sglang.io, "Server Arguments" and "LoRA Serving". Metrics: its
docs/references/production_metrics.md (0.4 to 0.5), with `--enable-metrics`. Of versions that do not count
requests, the ends are those whose whole latency was measured. Aborted requests are the client's wish as often
as a fault: they are not called errors.
"""

from serving.engines.spec import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RERANK,
    RESPONSES,
    AdapterCall,
    EngineSetting,
    EngineSpec,
    MetricNames,
    PodServer,
    ServerProgram,
    count_setting,
    flag_setting,
    gettext_noop,
)
from serving.engines.specs import shared_settings as shared

SPEC = EngineSpec(
    name="sglang",
    in_worker=True,
    has_worker_image=False,
    apis=frozenset({CHAT, COMPLETIONS, EMBEDDINGS, RERANK, RESPONSES}),
    formats=("safetensors",),
    context_setting="context_length",
    memory_share_setting="mem_fraction_static",
    settings=(
        shared.dtype(),
        shared.context("context_length"),
        shared.tensor_parallel("tensor_parallel_size"),
        shared.pipeline_parallel("pipeline_parallel_size"),
        shared.data_parallel("data_parallel_size"),
        count_setting("expert_parallel_size", gettext_noop("Expert parallel size"), alias="expert_parallel"),
        flag_setting("disable_radix_cache", gettext_noop("Disable prefix caching")),
        EngineSetting(
            "speculative_algorithm", gettext_noop("Speculative decoding"), "text", alias="speculative"
        ),
        shared.quantization("quantization"),
        shared.kv_cache_dtype("kv_cache_dtype"),
        shared.max_sequences("max_running_requests"),
        shared.memory_share("mem_fraction_static"),
        *shared.lora(),
        shared.LOAD_TIMEOUT,
    ),
    program=ServerProgram(
        command=("python3", "-m", "sglang.launch_server", "--model-path={model}"),
        arguments=(
            "--host=127.0.0.1",
            "--port={port}",
            "--served-model-name={name}",
            "--enable-metrics",
        ),
        is_named_by_all=False,
        slots_option="max-running-requests",
        refused=(
            r"host|port|nccl-port|nnodes|node-rank|dist-init-addr|model|model-path|served-model-name|.*api-key"
            r"|config|ssl-.*|trust-remote-code|fastapi-root-path|grpc-mode|revision|tool-server|custom-.*"
            r"|lora-paths|.*preprocess-program|file-storage-path|json-model-override-args"
        ),
        false_option="left out",
        load_adapter=AdapterCall(
            path="/load_lora_adapter", body={"lora_name": "{name}", "lora_path": "{path}"}
        ),
        unload_adapter=AdapterCall(path="/unload_lora_adapter", body={"lora_name": "{name}"}),
        adapter_options=("--enable-lora",),
    ),
    pod_server=PodServer(
        command=("python3", "-m", "sglang.launch_server"),
        args=(
            "--model-path=$(MODEL_DIR)",
            "--host=0.0.0.0",
            "--port=$(PORT)",
            "--served-model-name",
            "$(MODEL_NAME)",
            "--enable-metrics",
        ),
    ),
    metrics=MetricNames(
        present=("sglang:num_running_reqs",),
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_used=("sglang:token_usage",),
        requests=("sglang:num_requests_total", "sglang:e2e_request_latency_seconds_count"),
        prompt_tokens=("sglang:prompt_tokens_total",),
        completion_tokens=("sglang:generation_tokens_total",),
        ttft=("sglang:time_to_first_token_seconds",),
        tpot=("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    ),
)
