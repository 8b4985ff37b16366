"""A pipeline of a few thousand random weights, and what is asked of it; runs where diffusers is installed."""

import json
import sys
import time
from pathlib import Path


def write_tiny_pipeline(directory: Path) -> None:
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    torch.manual_seed(7)
    symbols = sorted(ByteLevel.alphabet())
    words = [*symbols, *(symbol + "</w>" for symbol in symbols), "<|startoftext|>", "<|endoftext|>"]
    directory.mkdir(parents=True)
    vocabulary, merges = directory / "vocab.json", directory / "merges.txt"
    vocabulary.write_text(json.dumps({word: index for index, word in enumerate(words)}))
    merges.write_text("#version: 0.2\n")
    tokenizer = CLIPTokenizer(str(vocabulary), str(merges), model_max_length=77)
    end = tokenizer.eos_token_id
    text = CLIPTextConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=37, num_attention_heads=4,
        num_hidden_layers=2, bos_token_id=end - 1, eos_token_id=end, pad_token_id=end,
    )  # fmt: skip
    blocks = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
    StableDiffusionPipeline(
        text_encoder=CLIPTextModel(text).eval(),
        tokenizer=tokenizer,
        unet=UNet2DConditionModel(
            sample_size=8, cross_attention_dim=32, attention_head_dim=8, **blocks,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        ),
        vae=AutoencoderKL(
            latent_channels=4, **blocks,
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        ),
        scheduler=DDIMScheduler(),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ).save_pretrained(directory)  # fmt: skip


def main(directory: Path) -> None:
    """Prints what was seen, for the test to judge."""
    from diffusers.models.attention_processor import AttnProcessor2_0

    from slipway import serve

    write_tiny_pipeline(directory)

    class Painter(serve.diffusion.DiffusionModel):
        max_side, max_steps = 64, 12

    class SharedPainter(Painter):
        guidance_processes = 2

    def order(prompt: str, seed: int, **more: int) -> serve.diffusion.PictureOrder:
        return serve.diffusion.PictureOrder(
            prompt=prompt, seed=seed, width=32, height=32, **({"steps": 8} | more)
        )

    alone = Painter()
    alone.load(serve.Files(directory))
    orders = [order("a cat", 1), order("a dog", 2)]
    one_by_one = [alone.pictures([wanted])[0] for wanted in orders]
    together = alone.pictures(orders)
    progress = list(alone.picture_with_progress(orders[0]))
    refused = []
    for wrong in (order("x", 1, steps=13), serve.diffusion.PictureOrder(prompt="x", width=128, height=32)):
        try:
            alone.pictures([wrong])
        except serve.Problem as problem:
            refused.append(problem.status)
    began = time.monotonic()
    alone.pictures(orders)
    alone_seconds = time.monotonic() - began

    shared = SharedPainter()
    shared.load(serve.Files(directory))
    rows: list[int] = []
    first_layer = shared.pipeline.unet.conv_in
    hook = first_layer.register_forward_hook(lambda _, given, __: rows.append(len(given[0])))
    by_two = shared.pictures(orders)
    hook.remove()
    began = time.monotonic()
    again = shared.pictures(orders)
    shared_seconds = time.monotonic() - began

    def apart(these: list, those: list) -> int:
        return max(int(abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(these, those, strict=True))

    seen = {
        "shape": one_by_one[0].shape,
        "contrast": int(one_by_one[0].max()) - int(one_by_one[0].min()),
        "cat and dog": apart(one_by_one[:1], one_by_one[1:]),
        "together": apart(together, one_by_one),
        "by two processes": apart(by_two, one_by_one),
        "again by two": apart(again, one_by_one),
        "rows of two pictures here": sorted(set(rows)),
        "progress": [piece["step"] for piece in progress[:-1]],
        "after progress": apart(progress[-1:], one_by_one[:1]),
        "refused": refused,
        "attention": sorted({type(one).__name__ for one in alone.pipeline.unet.attn_processors.values()}),
        "sdpa": AttnProcessor2_0.__name__,
        "seconds": [round(alone_seconds, 3), round(shared_seconds, 3)],
    }
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
