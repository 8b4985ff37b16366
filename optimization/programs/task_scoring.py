"""The job that has parent and child answer a task file of lm-eval, by the engine that serves them.

It runs in the environment of the family `evaluate`, without a network. Templates run in a sandbox.
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.jobs.run import Running, read_json, run
from optimization.programs.making import OFFLINE, missing_environment
from optimization.programs.scoring import SCORES, ScoringRefusal, loaded_model

Scores = dict[tuple[str, str], tuple[float, str]]
"""Score and text by metric and item."""
SCALAR = "byte_perplexity"


def score(running: Running) -> Mapping[str, Any]:
    """Return where the scores lie, or `refused` with the reason."""
    told = read_json()
    if gone := missing_environment(told):
        return {"refused": gone}
    place = Path(told["output"])
    place.mkdir(parents=True, exist_ok=True)
    found: dict[str, Scores] = {}
    for side in ("parent", "child"):
        running.report({"stage": f"scoring {side}", "done": 0, "total": 1})
        try:
            found[side] = scores_of(Path(told[side]), told["task"])
        except ScoringRefusal as error:
            return {"refused": f"The {side}: {error}"}
    with (place / SCORES).open("w") as file:
        for (metric, item), (ours, text) in found["parent"].items():
            theirs, _ = found["child"][metric, item]
            line = {"item": item, "metric": metric, "parent": ours, "child": theirs, "text": text}
            file.write(json.dumps(line) + "\n")
    return {"items": len(found["parent"]), "path": str(place / SCORES)}


def scores_of(directory: Path, task: Mapping[str, Any]) -> Scores:
    """Return the score of each item by lm-eval's own metrics; of texts in nats per byte."""
    model = loaded_model(directory)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HF_DATASETS_CACHE"] = scratch
        samples = _samples(model, task)
    found: Scores = {}
    for place, sample in enumerate(samples):
        text = json.dumps(sample["doc"], ensure_ascii=False)[:200]
        for metric in (one["metric"] for one in task["metric_list"]):
            value = sample[metric]
            number = value[0] / max(value[1], 1) if metric == SCALAR else float(value)
            if not math.isfinite(number):
                raise ScoringRefusal(f"item {place + 1} has no {metric} that is a number")
            found[f"{task['task']}:{metric}", f"{place}-{sample['doc_hash'][:16]}"] = (number, text)
    return found


def _samples(model: Any, task: Mapping[str, Any]) -> list[dict[str, Any]]:
    import lm_eval
    import lm_eval.utils
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from lm_eval.tasks import TaskManager

    templates = lm_eval.utils.env
    sandbox = ImmutableSandboxedEnvironment(undefined=templates.undefined, keep_trailing_newline=True)
    sandbox.filters.update(templates.filters)
    lm_eval.utils.env = sandbox
    try:
        found = lm_eval.simple_evaluate(
            model=_engine_of(model),
            tasks=[dict(task)],
            task_manager=TaskManager(include_defaults=False),
            bootstrap_iters=0,
            log_samples=True,
        )
    except ScoringRefusal:
        raise
    except Exception as error:
        # Whatever a team's task file makes lm-eval raise is about the file.
        raise ScoringRefusal(f"lm-eval cannot use {task['task']}: {type(error).__name__}: {error}") from None
    samples: list[dict[str, Any]] = found["samples"][task["task"]]
    return sorted(samples, key=lambda one: int(one["doc_id"]))


def _engine_of(loaded: Any) -> Any:
    """Return the engine's model as lm-eval asks models."""
    import torch
    from lm_eval import utils
    from lm_eval.api.model import TemplateLM

    class EngineModel(TemplateLM):  # type: ignore[misc]
        tokenizer = loaded.tokenizer
        max_length = min(loaded.context, 2_048)

        @property
        def eot_token_id(self) -> int:
            return int(next(iter(sorted(loaded.ends)), 0))

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
            special = True if add_special_tokens is None else add_special_tokens
            ids: list[int] = self.tokenizer(string, add_special_tokens=special)["input_ids"]
            return ids

        def _loglikelihood_tokens(
            self, requests: Sequence[tuple[Any, list[int], list[int]]], **_: Any
        ) -> list[tuple[float, bool]]:
            return [self._likelihood(context, rest) for _texts, context, rest in requests]

        def _likelihood(self, context: list[int], rest: list[int]) -> tuple[float, bool]:
            if not rest:
                raise ScoringRefusal("an item has an answer without any token: change doc_to_choice")
            if len(rest) > self.max_length:
                raise ScoringRefusal(f"an answer has {len(rest):,} tokens, its context {self.max_length:,}")
            ids = (context + rest)[-(self.max_length + 1) :]
            with torch.inference_mode():
                logits = loaded.model(input_ids=torch.tensor([ids[:-1]])).logits[0, -len(rest) :].float()
            if not torch.isfinite(logits).all():
                raise ScoringRefusal("its logits are no numbers")
            targets = torch.tensor(rest)[:, None]
            logs = logits.log_softmax(-1).gather(1, targets)
            return float(logs.sum()), bool((logits.argmax(-1, keepdim=True) == targets).all())

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            return [sum(self._windows(*one.args)) for one in requests]

        def _windows(self, text: str) -> Iterator[float]:
            windows = utils.get_rolling_token_windows(
                token_list=self.tok_encode(text, add_special_tokens=False),
                prefix_token=self.eot_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            for window in windows:
                context, rest = utils.make_disjoint_window(window)
                yield self._likelihood(context, rest)[0]

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return [self._written(*one.args) for one in requests]

        def _written(self, context: str, settings: dict[str, Any]) -> str:
            most = int(settings.get("max_gen_toks", 256))
            ids = self.tok_encode(context)[-(self.max_length - most) :]
            asked = torch.tensor([ids])
            with torch.inference_mode():
                made = loaded.model.generate(
                    asked, attention_mask=torch.ones_like(asked), do_sample=False, max_new_tokens=most,
                    pad_token_id=self.eot_token_id,
                )  # fmt: skip
            text: str = self.tokenizer.decode(made[0, len(ids) :], skip_special_tokens=True)
            for stop in settings.get("until") or ():
                text = text.split(stop)[0] if stop else text
            return text

    return EngineModel()


if __name__ == "__main__":
    os.environ.update(OFFLINE)
    sys.exit(run(score))
