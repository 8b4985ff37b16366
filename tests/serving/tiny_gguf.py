"""A model of a few thousand random weights as a GGUF file, one token a printable character."""

from pathlib import Path


def write_tiny_gguf(path: Path, *, context: int = 512) -> Path:
    import gguf
    import numpy as np

    width, heads, kv_heads, head, inner, layers = 64, 4, 2, 16, 128, 2
    # As byte-level BPE spells a space and the printable characters of ASCII.
    tokens = ["\u0120", *map(chr, range(33, 127)), "ab", "<|end|>"]
    end = len(tokens) - 1
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    kinds = [gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL]
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(
        "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    random = np.random.default_rng(5)

    def add(name: str, *shape: int) -> None:
        data = random.normal(0, 0.2, shape).astype(np.float32)
        writer.add_tensor(name, data if len(shape) > 1 else np.ones(shape, np.float32))

    add("token_embd.weight", len(tokens), width)
    add("output.weight", len(tokens), width)
    add("output_norm.weight", width)
    for layer in range(layers):
        block = f"blk.{layer}"
        add(f"{block}.attn_norm.weight", width)
        add(f"{block}.attn_q.weight", heads * head, width)
        add(f"{block}.attn_k.weight", kv_heads * head, width)
        add(f"{block}.attn_v.weight", kv_heads * head, width)
        add(f"{block}.attn_output.weight", width, heads * head)
        add(f"{block}.ffn_norm.weight", width)
        add(f"{block}.ffn_gate.weight", inner, width)
        add(f"{block}.ffn_up.weight", inner, width)
        add(f"{block}.ffn_down.weight", width, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
