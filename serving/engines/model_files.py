"""Models in Hugging Face layout, read from their files. Importing this module takes seconds."""

from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, GenerationConfig

from serving.engines.base import EngineError


def load_plain(directory: Path, dtype: Any) -> Any:
    """Load safetensors in Hugging Face layout. Raises EngineError, and whatever transformers raises."""
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        directory,
        dtype=dtype,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        # transformers would make them up at random and serve nonsense.
        raise EngineError(f"{len(missing)} weights are missing, {missing[0]} among them")
    return model


def generation_config(directory: Path) -> GenerationConfig:
    """Return the defaults of generation that a version brings; those of transformers where it brings none."""
    if (directory / "generation_config.json").is_file():
        return GenerationConfig.from_pretrained(directory, local_files_only=True)
    return GenerationConfig()
