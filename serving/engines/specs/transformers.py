"""Our own engine for Hugging Face transformers: `serving.engines.transformers`."""

from serving.engines.spec import (
    CHAT,
    COMPLETIONS,
    DTYPES,
    EngineSetting,
    EngineSpec,
    count_setting,
    gettext_noop,
)
from serving.engines.specs import shared_settings as shared

SPEC = EngineSpec(
    name="transformers",
    in_worker=True,
    apis=frozenset({CHAT, COMPLETIONS}),
    formats=("safetensors",),
    has_own_adapters=True,
    context_setting="max_context",
    # transformers, quantizer_fbgemm_fp8: raises below 9.0.
    least_capabilities={"fbgemm_fp8": "9.0"},
    # transformers, quantizer_finegrained_fp8: "We will default to dequantizing the model to bf16".
    fp8_fallback=(
        "",
        gettext_noop("on %(gpu)s %(engine)s unpacks FP8 weights to bfloat16: twice the memory"),
    ),
    settings=(
        EngineSetting("dtype", gettext_noop("Data type"), "choice", choices=DTYPES, alias="dtype"),
        count_setting(
            "max_context",
            gettext_noop("Context length"),
            gettext_noop("Tokens of prompt and answer together; 0: as many as the model takes."),
            least=0,
            most=100_000_000,
            alias="context_length",
        ),
        count_setting(
            "max_tokens",
            gettext_noop("Default answer length"),
            gettext_noop("Tokens of an answer whose request names no limit."),
            most=1_000_000,
        ),
        count_setting(
            "prefill_tokens",
            gettext_noop("Prefill chunk"),
            gettext_noop("Prompt tokens processed per step."),
            most=1_000_000,
        ),
        EngineSetting(
            "batching",
            gettext_noop("Batching"),
            "choice",
            gettext_noop("Auto: continuous, if requests to the model can share steps."),
            choices=("auto", "continuous", "static", "off"),
        ),
        EngineSetting(
            "prompt_kv_share",
            gettext_noop("Share of prompt KV kept"),
            "number",
            gettext_noop("Tokens of long prompts with the least attention are evicted; 1: none."),
            0.01,
            1,
        ),
        count_setting(
            "prompt_kv_recent",
            gettext_noop("Recent window"),
            gettext_noop("Last prompt tokens, which stay and by whose attention the others are scored."),
            most=4_096,
        ),
        count_setting(
            "prompt_kv_sinks",
            gettext_noop("Sink tokens"),
            gettext_noop("First prompt tokens, which always stay."),
            least=0,
            most=4_096,
        ),
        *shared.prompt_compression(),
        count_setting(
            "threads",
            gettext_noop("CPU threads"),
            gettext_noop("Without a GPU; 0: one for a small model, one per core for others."),
            least=0,
        ),
    ),
)
