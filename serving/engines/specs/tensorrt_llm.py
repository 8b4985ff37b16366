"""TensorRT-LLM: `trtllm-serve` as the worker's child, or its maker's image.

Options: tensorrt_llm/commands/serve.py. Metrics: tensorrt_llm/metrics/collector.py; `/metrics` itself is its
JSON of iterations. It counts ends of requests by their reason, failures apart.
"""

from serving.engines.spec import (
    CHAT,
    COMPLETIONS,
    RESPONSES,
    EngineSpec,
    MetricNames,
    PodServer,
    ServerProgram,
    count_setting,
    gettext_noop,
)
from serving.engines.specs import shared_settings as shared

SPEC = EngineSpec(
    name="tensorrt-llm",
    in_worker=True,
    has_worker_image=False,
    apis=frozenset({CHAT, COMPLETIONS, RESPONSES}),
    formats=("safetensors",),
    context_setting="max_seq_len",
    settings=(
        shared.context("max_seq_len"),
        shared.tensor_parallel("tensor_parallel_size"),
        shared.pipeline_parallel("pipeline_parallel_size"),
        count_setting(
            "moe_expert_parallel_size", gettext_noop("Expert parallel size"), alias="expert_parallel"
        ),
        shared.max_sequences("max_batch_size"),
        shared.kv_cache_dtype("kv_cache_dtype"),
        shared.memory_share("free_gpu_memory_fraction"),
        shared.LOAD_TIMEOUT,
    ),
    program=ServerProgram(
        command=("trtllm-serve", "serve", "{model}"),
        arguments=("--host=127.0.0.1", "--port={port}", "--served_model_name={name}"),
        is_named_by_all=False,
        slots_option="max-batch-size",
        refused=(
            r"host|port|config|extra-llm-api-options|served-model-name|trust-remote-code|revision|custom-.*"
            r"|metadata-server-config-file|server-role|disagg-.*|otlp-.*|chat-template|grpc|extra-.*"
        ),
        underscores=True,
        false_option="left out",
    ),
    pod_server=PodServer(
        command=("trtllm-serve", "serve", "$(MODEL_DIR)"),
        args=("--host=0.0.0.0", "--port=$(PORT)", "--served_model_name=$(MODEL_NAME)"),
    ),
    metrics=MetricNames(
        path="/prometheus/metrics",
        present=("trtllm_num_requests_running", "trtllm_request_success_total"),
        running=("trtllm_num_requests_running",),
        waiting=("trtllm_num_requests_waiting",),
        kv_used=("trtllm_kv_cache_utilization",),
        requests=("trtllm_request_success_total + trtllm_request_error_total",),
        errors=("trtllm_request_error_total",),
        prompt_tokens=("trtllm_prompt_tokens_total",),
        completion_tokens=("trtllm_generation_tokens_total",),
        ttft=("trtllm_time_to_first_token_seconds",),
        tpot=("trtllm_time_per_output_token_seconds",),
    ),
)
