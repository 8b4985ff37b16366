"""A model of a few thousand random weights, in Hugging Face layout: no sense, but it really runs."""

import json
from pathlib import Path

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_tiny_model(
    directory: Path, *, chat_template: str | None = TEMPLATE, context: int = 256, head_dim: int = 8
) -> Path:
    """Write a model with one token a byte, and special tokens for the chat template's roles.

    vLLM needs heads of 32 on a CPU.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    specials = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    vocabulary = {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = chat_template
    fast.save_pretrained(directory)
    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=len(vocabulary) + len(specials),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head_dim,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id("<|end|>"),
        initializer_range=0.2,
    )
    model = LlamaForCausalLM(config)
    if head_dim != 8:  # of a model that goes on until it is told to stop
        with torch.no_grad():
            model.lm_head.weight[config.eos_token_id] = 0
    model.save_pretrained(directory)
    return directory


def write_tiny_adapter(directory: Path, *, head_dim: int) -> Path:
    """A LoRA adapter in PEFT's layout that changes what the model of `write_tiny_model` says."""
    import torch
    from safetensors.torch import save_file

    directory.mkdir(parents=True)
    random, rank = torch.Generator().manual_seed(3), 4
    weights = {}
    for layer in range(2):
        for module, width in (("q_proj", 4 * head_dim), ("v_proj", 2 * head_dim)):
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            weights[f"{name}.lora_A.weight"] = torch.randn(rank, 32, generator=random)
            weights[f"{name}.lora_B.weight"] = torch.randn(width, rank, generator=random)
    save_file(weights, directory / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]}
    config |= {"task_type": "CAUSAL_LM", "bias": "none", "base_model_name_or_path": "tiny"}
    (directory / "adapter_config.json").write_text(json.dumps(config))
    return directory
