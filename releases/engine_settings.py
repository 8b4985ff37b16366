"""The settings of the engines that people fill in as fields, and what is wrong with given ones. Pure.

The engines check them again when a worker starts (`serving.engines`); what is refused here never gets so far.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

Words = str | Promise
Kind = Literal["integer", "number", "text", "choice"]
DTYPES = ("auto", "float32", "bfloat16", "float16")
"""`auto` is as the weights are stored."""


@dataclass(frozen=True, slots=True)
class EngineSetting:
    """One setting by its name in the engine; bounds are included."""

    key: str
    label: Words
    kind: Kind
    help: Words = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    placeholder: Words = ""

    def fault(self, value: object) -> str:
        """Why the engine would not take the value; empty if it would."""
        if self.kind == "choice":
            known = ", ".join(self.choices)
            return "" if value in self.choices else _("Choose one of %(known)s.") % {"known": known}
        if self.kind == "text":
            return "" if isinstance(value, str) else _("Give a text.")
        types = (int,) if self.kind == "integer" else (int, float)
        if not isinstance(value, types) or isinstance(value, bool):
            return _("Give a whole number.") if self.kind == "integer" else _("Give a number.")
        if self.least is not None and value < self.least:
            return _("Give at least %(least)g.") % {"least": self.least}
        if self.most is not None and value > self.most:
            return _("Give at most %(most)g.") % {"most": self.most}
        return ""


_ANSWER = gettext_lazy("Tokens of an answer whose request names no limit.")
ENGINE_SETTINGS: Mapping[str, Sequence[EngineSetting]] = {
    "transformers": (
        EngineSetting("dtype", gettext_lazy("Data type"), "choice", choices=DTYPES),
        EngineSetting(
            "max_context",
            gettext_lazy("Context length"),
            "integer",
            gettext_lazy("Tokens of prompt and answer together; 0: as many as the model takes."),
            0,
            100_000_000,
        ),
        EngineSetting("max_tokens", gettext_lazy("Default answer length"), "integer", _ANSWER, 1, 1_000_000),
        EngineSetting(
            "prefill_tokens",
            gettext_lazy("Prefill chunk"),
            "integer",
            gettext_lazy("Prompt tokens processed per step."),
            1,
            1_000_000,
        ),
        EngineSetting(
            "batching",
            gettext_lazy("Batching"),
            "choice",
            gettext_lazy("Auto: continuous, if requests to the model can share steps."),
            choices=("auto", "continuous", "static", "off"),
        ),
        EngineSetting(
            "threads",
            gettext_lazy("CPU threads"),
            "integer",
            gettext_lazy("Without a GPU; 0: one for a small model, one per core for others."),
            0,
            1_024,
        ),
    ),
    "vllm": (
        EngineSetting("dtype", gettext_lazy("Data type"), "choice", choices=DTYPES),
        EngineSetting(
            "max_model_len",
            gettext_lazy("Context length"),
            "integer",
            gettext_lazy("Tokens of prompt and answer together (max-model-len)."),
            1,
            100_000_000,
        ),
        EngineSetting(
            "tensor_parallel_size",
            gettext_lazy("Tensor parallel size"),
            "integer",
            gettext_lazy("GPUs that share the weights; as many as a worker has."),
            1,
            1_024,
        ),
        EngineSetting(
            "gpu_memory_utilization",
            gettext_lazy("GPU memory utilization"),
            "number",
            gettext_lazy("Share of each GPU's memory that vLLM takes, such as 0.9."),
            0.05,
            1,
        ),
        EngineSetting(
            "load_timeout_seconds",
            gettext_lazy("Load timeout (s)"),
            "number",
            gettext_lazy("A worker that is not ready by then has failed."),
            1,
            86_400,
        ),
    ),
    "app": (
        EngineSetting(
            "file",
            gettext_lazy("App file"),
            "text",
            gettext_lazy("Python file of the version with the serve.App; app.py by default."),
            placeholder="app.py",  # untranslated: a file name
        ),
        EngineSetting(
            "processes",
            gettext_lazy("CPU processes"),
            "integer",
            gettext_lazy("Requests that are worked on at the same time; 0: as the app says."),
            0,
            512,
        ),
    ),
    "echo": (
        EngineSetting(
            "token_seconds",
            gettext_lazy("Time per token (s)"),
            "number",
            gettext_lazy("The echo engine repeats the prompt, at this pace."),
            0,
            60,
        ),
        EngineSetting("tokens", gettext_lazy("Least answer length"), "integer", "", 0, 1_000_000),
    ),
}
CONTEXT_KEYS: Mapping[str, str] = {"transformers": "max_context", "vllm": "max_model_len"}
"""The setting that limits the context."""


def setting_faults(engine: str, settings: Mapping[str, Any]) -> list[str]:
    """What the engine would not take of the settings, as sentences that name the setting."""
    spelt = {_spelling(engine, key): value for key, value in settings.items()}
    return [
        f"{known.key}: {fault}"
        for known in ENGINE_SETTINGS.get(engine, ())
        if known.key in spelt and (fault := known.fault(spelt[known.key]))
    ]


def split(engine: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that have a field, by the field's key, and the rest as it is."""
    keys = {known.key for known in ENGINE_SETTINGS.get(engine, ())}
    fielded, rest = {}, {}
    for key, value in settings.items():
        name = _spelling(engine, key)
        if name in keys:
            fielded[name] = value
        else:
            rest[key] = value
    return fielded, rest


def _spelling(engine: str, key: str) -> str:
    # vLLM's options are known with hyphens and with underscores.
    return key.replace("-", "_") if engine == "vllm" else key
