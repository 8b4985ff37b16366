"""The job that has parent and child answer prompts, and a team's own scorer judge the answers.

The engine's model answers greedily. The scorer is code of the team: it runs in a process of its own that sees
prompts and answers alone, without a network, as another user where this process is root.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.jobs.run import Running, read_json, run
from optimization.items import SCORER
from optimization.programs import scorer_host
from optimization.programs.making import OFFLINE
from optimization.programs.scoring import SCORES, ScoringRefusal, loaded_model
from optimization.scorer_files import digest_of, read_scorer
from serving.runtime.isolation import Isolation, Limits

DEFAULT_TOKENS = 64
SCORER_SECONDS = 900.0
SCORER_MEMORY_MB = 2_048
SHOWN = 200


def score(running: Running) -> Mapping[str, Any]:
    """Return where the scores lie, or `refused` with the reason."""
    told = read_json()
    test, place = Path(told["test"]), Path(told["output"])
    place.mkdir(parents=True, exist_ok=True)
    items = read_scorer(test)
    try:
        answers = {side: answers_of(Path(told[side]), items, side, running) for side in ("parent", "child")}
        running.report({"stage": "running the scorer", "done": 0, "total": 1})
        found = scores_of(
            test, [(item, one) for some in answers.values() for item, one in zip(items, some, strict=True)]
        )
    except ScoringRefusal as error:
        return {"refused": str(error)}
    ours, theirs = found[: len(items)], found[len(items) :]
    lines = [
        {
            "item": digest_of(item),
            "metric": f"{test.stem[:24]}:{SCORER}",
            "parent": mine,
            "child": other,
            "text": f"{item['prompt'][:SHOWN]} → {answer[:SHOWN]}",
        }
        for item, answer, mine, other in zip(items, answers["child"], ours, theirs, strict=True)
    ]
    (place / SCORES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"items": len(lines), "path": str(place / SCORES)}


def answers_of(directory: Path, items: Sequence[Mapping[str, Any]], side: str, running: Running) -> list[str]:
    """Return the greedy answer to each prompt. Raises ScoringRefusal."""
    import torch

    loaded = loaded_model(directory)
    found = []
    for done, item in enumerate(items, 1):
        most = int(item.get("max_tokens", DEFAULT_TOKENS))
        asked = loaded.tokenizer(item["prompt"], return_tensors="pt")["input_ids"]
        if asked.shape[1] + most > loaded.context:
            raise ScoringRefusal(
                f"The {side}: item {done} has {asked.shape[1]:,} tokens and wants {most} more; its context "
                f"is {loaded.context:,}: shorten it or give max_tokens"
            )
        with torch.inference_mode():
            made = loaded.model.generate(
                asked, attention_mask=torch.ones_like(asked), do_sample=False, max_new_tokens=most,
                pad_token_id=int(next(iter(sorted(loaded.ends)), 0)),
            )  # fmt: skip
        found.append(loaded.tokenizer.decode(made[0, asked.shape[1] :], skip_special_tokens=True))
        if done % 10 == 0 or done == len(items):
            running.report({"stage": f"scoring {side}", "done": done, "total": len(items)})
    return found


def scores_of(scorer: Path, pairs: Sequence[tuple[Mapping[str, Any], str]]) -> list[float]:
    """Return what the scorer says of each answer, from 0 to 1. Raises ScoringRefusal with its last words."""
    isolation = Isolation()
    isolation.arrange(sys.executable, scorer)
    command = isolation.command([sys.executable, "-I", str(Path(scorer_host.__file__)), str(scorer)])
    given = "".join(json.dumps({"item": item, "answer": answer}) + "\n" for item, answer in pairs)
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            check=False,
            cwd=isolation.environment.get("HOME", "/"),
            env={"PATH": os.environ["PATH"], **isolation.environment},
            preexec_fn=Limits(memory_mb=SCORER_MEMORY_MB).apply,
            text=True,
            timeout=SCORER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ScoringRefusal(f"The scorer did not end within {SCORER_SECONDS:g} s") from None
    finally:
        isolation.end()
    sys.stderr.write(done.stderr[-4_000:])
    found = [float(line) for line in done.stdout.split()] if done.returncode == 0 else []
    if len(found) != len(pairs):
        words = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        raise ScoringRefusal(f"The scorer {scorer.name} failed: {words[:400]}")
    return found


if __name__ == "__main__":
    os.environ.update(OFFLINE)
    sys.exit(run(score))
