"""A causal language model in torch, one step at a time. Importing this module takes seconds."""

import inspect
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import jinja2
import torch
import transformers
from transformers import AutoTokenizer, DynamicCache, GenerationConfig

from serving.engines import int8, slot_attention
from serving.engines.base import EngineError, Piece
from serving.engines.kv_eviction import KvEviction
from serving.engines.lora import LoraAdapter, LoraSpans
from serving.engines.model_files import generation_config, load_plain
from serving.engines.slot_attention import Segment, SlotCache
from serving.openai import ChatPrompt, RequestFault, Sampling, TextPrompt, TextRequest
from serving.text import PLAIN_CHAT_STOP, StopWindow, Unrolling, plain_chat

if TYPE_CHECKING:
    from serving.engines.transformers import TransformersSettings

log = logging.getLogger(__name__)

SMALL_MODEL_PARAMETERS = 100_000_000
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class CausalModel:
    """Model, tokenizer and generation settings of one directory. Belongs to one thread."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        defaults: GenerationConfig,
        settings: "TransformersSettings",
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.settings = settings
        self.device = str(model.device)
        self.defaults = defaults
        self.broken = ""
        self.adapters: Mapping[str, LoraAdapter] = {}
        """By name; replaced as a whole, so that another thread may do it."""
        self._lora = LoraSpans(model)
        config = model.config.get_text_config()
        self.vocabulary = int(config.vocab_size)
        limit = int(getattr(config, "max_position_embeddings", 0) or 0)
        asked = settings.max_context
        if limit and asked > limit:
            raise EngineError(f"max_context is {asked}, but this model's limit is {limit} tokens")
        self.context = asked or limit or 2**31
        self.ends = _end_tokens(defaults.eos_token_id, config.eos_token_id, tokenizer.eos_token_id)
        evicts = settings.prompt_kv_share < 1
        self.eviction = (
            KvEviction(settings.prompt_kv_share, settings.prompt_kv_recent, settings.prompt_kv_sinks)
            if evicts
            else None
        )
        self._last_logits_only = "logits_to_keep" in inspect.signature(model.forward).parameters

    @classmethod
    def load(cls, directory: Path, *, device: str, settings: "TransformersSettings") -> Self:
        """Load from a directory in Hugging Face layout; nothing is fetched, no code of the directory runs.

        Only safetensors are read. Raises EngineError, and whatever transformers raises.
        """
        if not (directory / "config.json").is_file():
            raise EngineError(f"{directory} has no config.json: not a model in Hugging Face layout")
        place = _device(device)
        if settings.dtype not in (*DTYPES, "auto"):
            raise EngineError(f"dtype must be one of auto, {', '.join(DTYPES)}")
        dtype = DTYPES.get(settings.dtype) or ("auto" if place.startswith("cuda") else torch.float32)
        transformers.utils.logging.disable_progress_bar()
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        if int8.is_ours(int8.quantization_of(directory)):
            model = int8.load(directory, device=place)
            model.generation_config = generation_config(directory)
        else:
            model = load_plain(directory, dtype)
        threads = settings.threads
        if not threads and model.num_parameters() < SMALL_MODEL_PARAMETERS:
            threads = 1
        if threads:
            torch.set_num_threads(threads)
        model = model.to(place).eval()
        return cls(model, tokenizer, model.generation_config, settings)

    @classmethod
    def of(cls, model: Any, directory: Path, *, settings: "TransformersSettings") -> Self:
        """Return a model that was loaded otherwise, with the tokenizer of its directory."""
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        return cls(model, tokenizer, generation_config(directory), settings)

    def share_steps(self, slots: int) -> str:
        """Prepare forward steps that all `slots` share; return why this model cannot, or an empty text.

        The same tokens go through the model's own attention first: if its logits differ, it is not batched.
        """
        ids = [[index * 7 % self.vocabulary for index in range(1, length)] for length in (9, 4)]
        own = [self.forward(prompt, DynamicCache(config=self.model.config)) for prompt in ids]
        former = self.model.config._attn_implementation
        try:
            self.model.set_attn_implementation(slot_attention.IMPLEMENTATION)
            trial = self._slot_cache = SlotCache(slots=2, limit=self.context, eviction=self.eviction)
            # Of a prompt that would lose tokens, but does not end: whether its attention allows it shows.
            keep = 1 if self.eviction else 0
            self.forward_together(
                [Segment(slot, 0, prompt[:-1], keep=keep) for slot, prompt in enumerate(ids)]
            )
            last = [Segment(slot, len(prompt) - 1, prompt[-1:]) for slot, prompt in enumerate(ids)]
            shared = self.forward_together(last)
            tolerance = 1e-3 if trial.keys[0].dtype == torch.float32 else 0.1
            worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(shared, own, strict=True))
            reason = (
                "" if worst <= tolerance else f"its logits differ by {worst:.1%} from those of a step alone"
            )
        except EngineError as error:
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        if reason:
            self.model.set_attn_implementation(former)
        self._slot_cache = SlotCache(slots=slots, limit=self.context, eviction=self.eviction)
        return reason

    def forward_together(self, segments: Sequence[Segment]) -> list[torch.Tensor]:
        """Append each segment to its slot in one step; return the logits after the last token of each.

        A step that raises may be taken again: nothing is read that it may have written.
        """
        cache, device = self._slot_cache, self.model.device
        ordered = cache.begin(segments, device)
        ends = torch.tensor([len(segment.ids) for segment in ordered], device=device).cumsum(0) - 1
        positions = [
            torch.arange(segment.start + segment.evicted, segment.end + segment.evicted)
            for segment in ordered
        ]
        ids = [token for segment in ordered for token in segment.ids]
        keywords: dict[str, Any] = {"logits_to_keep": ends} if self._last_logits_only else {}
        spans = [
            (int(end) + 1 - len(segment.ids), int(end) + 1, segment.adapter)
            for segment, end in zip(ordered, ends, strict=True)
            if segment.adapter is not None
        ]
        with torch.inference_mode(), self._lora.of(spans):
            output = self.model(
                input_ids=torch.tensor([ids], device=device),
                position_ids=torch.cat(positions)[None].to(device),
                past_key_values=cache,
                use_cache=True,
                slot_cache=cache,
                **keywords,
            )
            logits = (output.logits[0] if keywords else output.logits[0, ends]).float().cpu()
            cache.end()
        found = {segment.slot: row for segment, row in zip(ordered, logits, strict=True)}
        return [found[segment.slot] for segment in segments]

    def begin(self, request: TextRequest, *, seed: int) -> "Continuation":
        """Reads the prompt. Raises RequestFault when it does not fit or cannot be read."""
        stops = request.sampling.stop
        adapter = self.adapters.get(request.adapter)
        if request.adapter and adapter is None:  # unloaded since the request came
            raise RequestFault.no_such_model(request.adapter)
        prompt = request.prompt
        if isinstance(prompt, ChatPrompt):
            messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
            if self.tokenizer.chat_template:
                ids = self._encode(self._render(messages), special=False)
            else:
                ids = self._encode(plain_chat(prompt.messages), special=True)
                stops = (*stops, PLAIN_CHAT_STOP)
        elif isinstance(prompt, TextPrompt):
            ids = self._encode(prompt.text, special=True)
        else:
            ids = list(prompt.ids)
            if max(ids) >= self.vocabulary:
                raise RequestFault.invalid(
                    f"Token ids must be below {self.vocabulary}", param="prompt", code="invalid_token"
                )
        if not ids:
            raise RequestFault.invalid("The prompt is empty", param="prompt")
        length = self._answer_length(len(ids), request.sampling.max_tokens)
        return Continuation(
            self, ids, request.sampling, stops=stops, length=length, seed=seed, adapter=adapter
        )

    def forward(
        self, ids: Sequence[int], cache: DynamicCache, adapter: LoraAdapter | None = None
    ) -> torch.Tensor:
        """Appends `ids` to the cache; the logits after the last of them, float32 on the CPU."""
        keywords: dict[str, Any] = {"logits_to_keep": 1} if self._last_logits_only else {}
        spans = [(0, len(ids), adapter)] if adapter else []
        with torch.inference_mode(), self._lora.of(spans):
            output = self.model(
                input_ids=torch.tensor([ids], device=self.model.device),
                past_key_values=cache,
                use_cache=True,
                **keywords,
            )
            logits: torch.Tensor = output.logits[0, -1].float().cpu()
            return logits

    def judged(self, error: Exception) -> RequestFault:
        """The client's view of an error of the device or the library; notes what no request can survive."""
        if isinstance(error, torch.OutOfMemoryError):
            torch.cuda.empty_cache()
            return RequestFault.unavailable(
                "The device is out of memory for this request", retry_after_seconds=5
            )
        if isinstance(error, torch.AcceleratorError):
            self.broken = str(error).splitlines()[0]
        return RequestFault.internal("The engine failed on this request; the worker's log says why")

    def _render(self, messages: list[dict[str, str]]) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False
            )
        except jinja2.TemplateError as error:
            raise RequestFault.invalid(
                f"The model's chat template refuses these messages: {error}", param="messages"
            ) from None
        return text

    def _encode(self, text: str, *, special: bool) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=special)["input_ids"]
        return ids

    def _answer_length(self, prompt: int, asked: int | None) -> int:
        room = self.context - prompt
        if room < 1 or (asked is not None and asked > room):
            wish = f" and {asked} for the answer" if asked else ""
            raise RequestFault.invalid(
                f"The context of this model is {self.context} tokens; the prompt has {prompt}{wish}",
                param="messages" if asked is None else "max_tokens",
                code="context_length_exceeded",
            )
        default = self.defaults.max_new_tokens or self.settings.max_tokens
        return min(room, asked if asked is not None else default)


class Continuation:
    """An answer in the making."""

    def __init__(
        self,
        model: CausalModel,
        ids: list[int],
        sampling: Sampling,
        *,
        stops: tuple[str, ...],
        length: int,
        seed: int,
        adapter: LoraAdapter | None = None,
    ) -> None:
        self._model = model
        self.adapter = adapter
        self._pending = ids
        self._prompt_tokens = len(ids)
        self._length = length
        self._made = 0
        self._cache: DynamicCache | None = None
        self._place = 0
        self._evicted = 0
        self._keep = model.eviction.kept(len(ids)) if model.eviction else 0
        self._ends = frozenset[int]() if sampling.ignore_eos else model.ends
        self._pick = Pick.of(sampling, model.defaults, seed=seed)
        self._text = Unrolling(lambda some: model.tokenizer.decode(some, skip_special_tokens=True))
        self._window = StopWindow(stops)

    @property
    def is_reading(self) -> bool:
        """Whether tokens of the prompt are left to be read."""
        return not self._made

    def next_ids(self, limit: int) -> list[int]:
        """Return the tokens that the next step reads, at most `limit`."""
        return self._pending[:limit]

    def segment(self, slot: int, ids: list[int]) -> Segment:
        """Return the part of the next step that reads these tokens."""
        if not self.is_reading:
            return Segment(slot, self._place, ids, self.adapter, self._evicted)
        ends_prompt = len(ids) == len(self._pending)
        return Segment(slot, self._place, ids, self.adapter, keep=self._keep, ends_prompt=ends_prompt)

    def step_alone(self) -> Piece | None:
        """Take one step with a cache of its own: see `accept`."""
        if self._cache is None:
            self._cache = DynamicCache(config=self._model.model.config)
        ids = self.next_ids(self._model.settings.prefill_tokens)
        return self.accept(ids, self._model.forward(ids, self._cache, self.adapter))

    def accept(self, ids: list[int], logits: torch.Tensor) -> Piece | None:
        """Note that `ids` were read; return the next token's text, or None if more of the prompt is left."""
        self._place += len(ids)
        self._pending = self._pending[len(ids) :]
        if self._pending:
            return None
        if self.is_reading and self._keep:
            self._place, self._evicted = self._keep, self._place - self._keep
        token = self._pick.token(logits)
        self._made += 1
        if token in self._ends:
            text = self._window.feed(self._text.flush())
            return self._piece(text + self._window.flush(), "stop")
        self._pending = [token]
        text = self._window.feed(self._text.feed(token))
        if self._window.stopped:
            return self._piece(text, "stop")
        if self._made >= self._length:
            text += self._window.feed(self._text.flush())
            return self._piece(text + self._window.flush(), "stop" if self._window.stopped else "length")
        return self._piece(text, None)

    def _piece(self, text: str, finish_reason: Any) -> Piece:
        return Piece(text, self._prompt_tokens, self._made, finish_reason)


class Pick:
    """Draws a token: temperature, then top-k, then nucleus (top-p) sampling; temperature 0 is greedy."""

    def __init__(self, *, temperature: float, top_k: int, top_p: float, seed: int) -> None:
        self._temperature, self._top_k, self._top_p = temperature, top_k, top_p
        self._generator = torch.Generator()
        self._generator.manual_seed(seed)

    @classmethod
    def of(cls, sampling: Sampling, defaults: GenerationConfig, *, seed: int) -> Self:
        """Take what the request says, else what the model's generation_config.json says, else OpenAI's 1."""

        def first(asked: float | None, own: float | None) -> float:
            return asked if asked is not None else own if own is not None else 1.0

        return cls(
            temperature=first(sampling.temperature, defaults.temperature),
            top_k=defaults.top_k or 0,
            top_p=first(sampling.top_p, defaults.top_p),
            seed=seed,
        )

    def token(self, logits: torch.Tensor) -> int:
        if not bool(torch.isfinite(logits).any()) or bool(torch.isnan(logits).any()):
            raise FloatingPointError("the model's logits are not numbers")
        if self._temperature == 0:
            return int(logits.argmax())
        logits = logits / self._temperature
        if 0 < self._top_k < logits.shape[-1]:
            logits, ids = logits.topk(self._top_k)
        else:
            logits, ids = logits.sort(descending=True)
        shares = logits.softmax(-1)
        if self._top_p < 1:
            before = shares.cumsum(-1) - shares
            shares = shares.masked_fill(before >= self._top_p, 0.0)
        return int(ids[torch.multinomial(shares, 1, generator=self._generator)])


def _device(asked: str) -> str:
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        raise EngineError(
            "--device=cuda, but torch sees no CUDA device here; --device=cpu serves on the processor"
        )
    return "cuda:0"


def _end_tokens(*ids: int | list[int] | None) -> frozenset[int]:
    return frozenset(
        one for some in ids if some is not None for one in (some if isinstance(some, list) else [some])
    )
