"""The translation sample against its truth: `python -m perf.translation --out DIR [--pictures 40]`.

Trains the sample where it is not yet, draws pictures that it has not seen, and runs its graph over them
serially, with one process per task, and by a plan that gives OCR a process per core. All must write the
same bytes. The generator's truth gives the share of lines that are read and translated exactly, the mask's
IoU, and the change of pixels outside of the text.
"""

import argparse
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
from PIL import Image

from controlplane.sample.translate import pictures, train
from perf.required import RequiredFigure, at_least, at_most, report
from serving.graphs.description import GraphDescription
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from serving.runtime.packages import python_for

FIRST_SEED = 50_000
MARGIN = 6
"""Pixels around a line that may change with it."""


def ran(python: str, app: Path, source: Path, out: Path, *options: str) -> float:
    shutil.rmtree(out, ignore_errors=True)
    began = time.monotonic()
    command = [
        python,
        "-m",
        "slipway.cli",
        "graph",
        "run",
        str(app),
        str(source),
        "--out",
        str(out),
        *options,
    ]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return time.monotonic() - began


def description_of(python: str, app: Path) -> GraphDescription:
    code = (
        "import sys, json, pathlib; from slipway import graph;"
        "print(json.dumps(graph.load_graph(pathlib.Path(sys.argv[1])).description.document()))"
    )
    done = subprocess.run([python, "-c", code, str(app)], check=True, capture_output=True, text=True)
    return GraphDescription.parse(json.loads(done.stdout.splitlines()[-1]))


def scored(out: Path, drawn: dict[str, pictures.ProductPicture]) -> list[RequiredFigure]:
    read = translated = lines = 0
    overlap, union, changes = 0, 0, []
    for name, picture in drawn.items():
        facts = json.loads((out / f"{name}.facts.json").read_text())
        told = {line["text"]: line["translation"] for line in facts["lines"]}
        for source, target in picture.lines:
            lines += 1
            read += source in told
            translated += target in told.values()
        mask = np.asarray(Image.open(out / f"{name}.mask.png")) > 0
        overlap += int((mask & picture.mask).sum())
        union += int((mask | picture.mask).sum())
        made = np.asarray(Image.open(out / f"{name}.picture.png")).astype(int)
        outside = np.ones(mask.shape, bool)
        for (left, top, right, bottom), line in zip(picture.boxes, picture.lines, strict=True):
            reach = max(right, pictures.WIDTH) if len(line[1]) > len(line[0]) else right
            outside[max(0, top - MARGIN) : bottom + MARGIN, max(0, left - MARGIN) : reach + MARGIN] = False
        changes.append(float(np.abs(made - picture.pixels)[outside].mean()))
    return [
        at_least("lines read exactly", read / lines, 0.8),
        at_least("lines translated exactly", translated / lines, 0.8),
        at_least("IoU of the product's mask", overlap / union, 0.9),
        at_most("mean change of pixels outside of the text (of 255)", float(np.mean(changes)), 1.0),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.translation", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=40)
    options = parser.parse_args()
    out: Path = options.out.resolve()
    train.ensure(out / "versions")
    app = out / "versions" / "v2" / "app.py"
    python = python_for(app.parent, out / "environments")
    source = out / "pictures"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    drawn = {f"{number:04d}": pictures.draw(FIRST_SEED + number) for number in range(options.pictures)}
    for name, picture in drawn.items():
        (source / f"{name}.png").write_bytes(picture.png())

    description = description_of(python, app)
    cores = os.cpu_count() or 1
    one = GraphPlan.of_one_each(description, items=2 * cores + 2)
    ocr = TaskPlan(replicas=max(1, cores))
    plan = GraphPlan(tasks={**one.tasks, "Ocr": ocr}, entry=EntryLimits(items=2 * cores + 4))
    (out / "plan.json").write_text(json.dumps(plan.document()))
    ways = {
        "serial": ["--serial"],
        "one process per task": [],
        "plan": ["--plan", str(out / "plan.json")],
    }
    seconds = {}
    for name, more in ways.items():
        results = out / name.replace(" ", "-")
        seconds[name] = ran(python, app, source, results, *more)
        print(f"{name}: {options.pictures / seconds[name]:.2f} pictures/s, start included")
    same = all(
        file.read_bytes() == (out / "plan" / file.name).read_bytes() for file in (out / "serial").iterdir()
    )
    figures = [at_least("the plan's bytes are those of the serial run", float(same), 1.0)]
    return report([*figures, *scored(out / "plan", drawn)])


if __name__ == "__main__":
    raise SystemExit(main())
