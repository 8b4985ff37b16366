"""Settings that servers of language models share, each by its own option's name."""

from serving.engines.spec import DTYPES, ENABLE_LORA, EngineSetting, count_setting, flag_setting, gettext_noop


def dtype() -> EngineSetting:
    return EngineSetting("dtype", gettext_noop("Data type"), "choice", choices=DTYPES, alias="dtype")


def context(key: str) -> EngineSetting:
    return count_setting(
        key,
        gettext_noop("Context length"),
        gettext_noop("Tokens of prompt and answer together."),
        most=100_000_000,
        alias="context_length",
    )


def tensor_parallel(key: str) -> EngineSetting:
    return count_setting(
        key,
        gettext_noop("Tensor parallel size"),
        gettext_noop("GPUs that share the weights; as many as a worker has."),
        alias="tensor_parallel",
    )


def pipeline_parallel(key: str) -> EngineSetting:
    return count_setting(
        key,
        gettext_noop("Pipeline parallel size"),
        gettext_noop("Groups of GPUs that hold the layers one after the other."),
        alias="pipeline_parallel",
    )


def data_parallel(key: str) -> EngineSetting:
    return count_setting(
        key,
        gettext_noop("Data parallel size"),
        gettext_noop("Copies of the model that share the requests."),
        alias="data_parallel",
    )


def lora() -> tuple[EngineSetting, EngineSetting]:
    """Return the settings of LoRA adapters: vLLM and SGLang call them the same."""
    return (
        flag_setting(
            ENABLE_LORA,
            gettext_noop("LoRA adapters"),
            gettext_noop("Adapters can be loaded while workers run; it takes memory and some speed."),
        ),
        count_setting(
            "max_lora_rank",
            gettext_noop("Highest LoRA rank"),
            gettext_noop("Adapters of a higher rank are refused."),
            most=512,
        ),
    )


def prompt_compression() -> tuple[EngineSetting, EngineSetting]:
    """Return the settings of the stage before the engine: `serving.prompt_compression`."""
    return (
        EngineSetting(
            "prompt_share",
            gettext_noop("Prompt compression"),
            "number",
            gettext_noop("Share of a prompt's tokens that stay; 1: all. Needs a small model in the version."),
            0.05,
            1,
        ),
        count_setting(
            "prompt_target",
            gettext_noop("Prompt target length"),
            gettext_noop("Tokens that a prompt is compressed to; 0: by share."),
            least=0,
            most=1_000_000,
        ),
    )


def memory_share(key: str) -> EngineSetting:
    return EngineSetting(
        key,
        gettext_noop("GPU memory utilization"),
        "number",
        gettext_noop("Share of each GPU's memory that the engine takes, such as 0.9."),
        0.05,
        1,
        alias="memory_share",
    )


def max_sequences(key: str) -> EngineSetting:
    return count_setting(
        key,
        gettext_noop("Maximum sequences"),
        gettext_noop("Requests in one step; the worker's slots by default."),
        most=100_000,
        alias="max_sequences",
    )


def quantization(key: str) -> EngineSetting:
    return EngineSetting(
        key,
        gettext_noop("Quantization"),
        "text",
        gettext_noop("As the weights' files say by default."),
        placeholder="fp8",  # untranslated
        alias="quantization",
    )


def kv_cache_dtype(key: str, label: str = gettext_noop("KV cache data type")) -> EngineSetting:
    return EngineSetting(key, label, "text", placeholder="fp8", alias="kv_cache_dtype")  # untranslated


LOAD_TIMEOUT = EngineSetting(
    "load_timeout_seconds",
    gettext_noop("Load timeout (s)"),
    "number",
    gettext_noop("A worker that is not ready by then has failed."),
    1,
    86_400,
)
