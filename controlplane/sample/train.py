"""`python -m controlplane.sample.train --out DIR [--seconds N] [--bad]`: two versions of one small model.

Takes about a minute on two cores, nothing at all when DIR holds them already. The second version goes on
where the first stopped, so it is the same model, visibly better. `--bad` adds a third that serves badly.
"""

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.sample import artefacts
from controlplane.sample.artefacts import SampleArtefacts

if TYPE_CHECKING:
    from controlplane.sample.corpus import Passage
    from controlplane.sample.model import Student

SEED = 20
SECONDS = 90.0
FIRST_STEPS, SECOND_STEPS = 80, 260
EXAMINED_SHARE = 0.05
SHOWN_QUESTIONS = ("What does json.dumps do?", "What is a class?", "Explain the import statement.")

Tell = Callable[[str], None]


def ensure(out: Path, *, seconds: float = SECONDS, bad: bool = False, tell: Tell = print) -> SampleArtefacts:
    """The sample in `out`, trained now unless it is there, whole and verified.

    `seconds` limits the training itself (both versions together); a run that is not cut short by it is the
    same to the bit on the same machine. Several processes may ask at once. Raises OSError.
    """
    names = ("v1", "v2", "v3") if bad else ("v1", "v2")
    with artefacts.alone_in(out):
        if sample := artefacts.find(out, names, seconds=seconds):
            return sample
        good = artefacts.find(out, ("v1", "v2"), seconds=seconds)
        with artefacts.being_made(out) as scratch:
            if good is None:
                figures, cut_short = _train(scratch, seconds=seconds, tell=tell)
            else:
                for name, directory in good.versions.items():
                    shutil.copytree(directory, scratch / name)
                manifest = json.loads((out / artefacts.MANIFEST).read_bytes())
                figures, cut_short, seconds = good.figures, manifest["cut_short"], manifest["seconds"]
            if bad:
                _spoil(scratch)
            return artefacts.publish(
                scratch, out, names, figures=figures, seconds=seconds, cut_short=cut_short
            )


def _train(scratch: Path, *, seconds: float, tell: Tell) -> tuple[Mapping[str, Any], bool]:
    from controlplane.sample.corpus import passages

    began = time.monotonic()
    text = passages()
    tell(f"read {len(text):,} paragraphs of the standard library in {time.monotonic() - began:.0f} s")

    # Threads that spin while they wait make every step ten times slower on a machine that is busy.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    import transformers

    from controlplane.sample.model import ModelShape, Student, TrainingOptions, as_texts, make_tokenizer

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    examined, learned = split(text)
    shape = ModelShape()
    tokenizer = make_tokenizer([passage.text for passage in learned], shape)
    student = Student(
        tokenizer, shape, learn_from=as_texts(learned), examine_on=as_texts(examined), seed=SEED
    )
    tell(f"a Llama of {student.parameters:,} parameters and {len(tokenizer):,} tokens")
    share = FIRST_STEPS / (FIRST_STEPS + SECOND_STEPS)
    lessons = {
        "v1": TrainingOptions(steps=FIRST_STEPS, seconds=seconds * share),
        "v2": TrainingOptions(steps=SECOND_STEPS, seconds=seconds * (1 - share)),
    }
    figures: dict[str, Any] = {}
    for name, lesson in lessons.items():
        began = time.monotonic()
        learned_now = student.learn(lesson, lambda words, name=name: tell(f"{name}: {words}"))  # type: ignore[misc]
        figures[name] = asdict(learned_now) | {"parameters": student.parameters}
        took = time.monotonic() - began
        tell(
            f"{name}: {learned_now.steps} steps in {took:.0f} s, "
            f"loss {learned_now.loss:.3f}, {learned_now.bits_per_byte:.2f} bits a byte"
        )
        student.save(scratch / name)
        (scratch / name / "README.md").write_text(_card(name, figures, student))
    return figures, any(figures[name]["steps"] < lesson.steps for name, lesson in lessons.items())


def split(text: "Sequence[Passage]") -> "tuple[Sequence[Passage], Sequence[Passage]]":
    shuffled = list(text)
    random.Random(SEED).shuffle(shuffled)  # noqa: S311 - a split that is the same every time
    held_back = max(1, round(EXAMINED_SHARE * len(shuffled)))
    return shuffled[:held_back], shuffled[held_back:]


def _spoil(scratch: Path) -> None:
    """Make v3: the weights of v2, served slowly and with failures."""
    shutil.copytree(scratch / "v2", scratch / "v3")
    (scratch / "v3" / "slipway.json").write_text(json.dumps(artefacts.BAD_SETTINGS, indent=2) + "\n")
    card = scratch / "v3" / "README.md"
    faults = artefacts.BAD_SETTINGS["serving"]
    card.write_text(
        card.read_text()
        + "\n## This version is bad on purpose\n\n"
        + f"Its weights are those of v2, but `slipway.json` makes a worker wait {faults['delay_ms']} ms\n"
        + f"before every answer and fail {faults['fail_share']:.0%} of the requests, from its request\n"
        + f"number {faults['after_requests'] + 1} on. A canary has to find that out.\n"
    )


def _card(name: str, figures: dict[str, Any], student: "Student") -> str:
    rows = "".join(
        f"| {version} | {entry['steps']:,} | {entry['tokens']:,} | {entry['loss']:.3f} "
        f"| {entry['bits_per_byte']:.3f} |\n"
        for version, entry in figures.items()
    )
    total = sum(entry["tokens"] for entry in figures.values())
    answers = "".join(
        f"> **{question}**\n>\n> {student.answer(question, seed=SEED).strip() or '(nothing)'}\n\n"
        for question in SHOWN_QUESTIONS
    )
    return f"""---
language: en
library_name: transformers
license: psf-2.0
pipeline_tag: text-generation
tags: [llama, slipway-sample]
---

# Docstring Llama, {name}

A Llama of {student.parameters:,} parameters that learned English from the docstrings and help topics of
Python {sys.version_info.major}.{sys.version_info.minor}'s standard library, in about a minute on a processor.
It answers "What does ... do?" in the tone of a docstring and knows nothing: a sample to release, not to
rely on.

| version | steps | tokens read | loss on held-back text (nats a token) | bits a byte |
|---|---|---|---|---|
{rows}
Tokens read in all until {name}: {total:,}. {
        "It goes on where v1 stopped." if name == "v2" else "v2 goes on from here."
    } Optimizer: Muon for the matrices, AdamW
for the rest. Held back: {EXAMINED_SHARE:.0%} of the paragraphs.

## What it says

Temperature 0.7, top-p 0.9, seed {SEED}:

{answers.rstrip()}
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m controlplane.sample.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory of the sample; made if missing")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="limit of the training (default: %(default)g)"
    )
    parser.add_argument("--bad", action="store_true", help="add v3, a bad version")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= 86_400:
        parser.error("--seconds must be above 0 and at most 86400")
    try:
        sample = ensure(options.out, seconds=options.seconds, bad=options.bad, tell=_tell)
    except OSError as error:
        sys.stderr.write(f"{options.out} cannot hold the sample: {error}\n")
        return 1
    for name, directory in sample.versions.items():
        sys.stdout.write(f"{name} {directory}\n")
    return 0


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
