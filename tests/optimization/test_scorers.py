"""A team's own scorer: code under the trust rules, in a process that sees prompts and answers alone."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from common.actor import Actor
from models_registry.models import Model
from models_registry.services.exemptions import exempt_code
from optimization.errors import InvalidOptimization
from optimization.items import BadItems
from optimization.models import AccuracyCheck
from optimization.programs.scoring import ScoringRefusal
from optimization.programs.script_scoring import scores_of
from optimization.scorer_files import read_scorer
from optimization.services import cancel_run
from tests.optimization.conftest import OptimizationScene

SCORER = """
import os, socket

def score(item, answer):
    print("judged", item["prompt"])
    return answer.count(" ") / 10 if "SECRET" not in os.environ else 1
"""
ITEMS = [f'{{"prompt": "the cat sees the tree and {number}", "max_tokens": 6}}' for number in range(20)]


def write(directory: Path, code: str = SCORER, items: list[str] = ITEMS) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spaces.jsonl").write_text("\n".join(items))
    path = directory / "spaces.py"
    path.write_text(code)
    return path


@pytest.mark.process
def test_a_scorer_judges_answers_in_a_process_that_inherits_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    path = write(tmp_path)
    assert scores_of(path, [({"prompt": "a"}, "b c"), ({"prompt": "d"}, "e")]) == [0.1, 0.0]
    for code, said in (
        ("def score(item, answer): return 2", "number from 0 to 1"),
        ("def score(item, answer): raise KeyError('wanted')", "KeyError: 'wanted'"),
        ("import os\ndef score(item, answer): os._exit(0)", "failed"),
    ):
        with pytest.raises(ScoringRefusal, match=said):
            scores_of(write(tmp_path, code), [({"prompt": "a"}, "b")])


@pytest.mark.parametrize(
    ("code", "items", "said"),
    [
        ("def score(item, answer) return 1", ITEMS, "no Python"),
        ("def rate(item, answer): return 1", ITEMS, r"needs a function score\(item, answer\)"),
        (SCORER, ITEMS[:19], "needs 20 items"),
        (SCORER, [*ITEMS, ITEMS[0]], "more than once"),
        (SCORER, [*ITEMS, '{"text": "a"}'], "prompt in line 21"),
        (SCORER, [*ITEMS, '{"prompt": "a", "max_tokens": 513}'], "max_tokens must be from 1 to 512"),
    ],
)
def test_scorers_that_cannot_be_used_are_refused(
    tmp_path: Path, code: str, items: list[str], said: str
) -> None:
    with pytest.raises(BadItems, match=said):
        read_scorer(write(tmp_path, code, items))


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.django_db
@pytest.mark.timeout(300)
def test_a_scorer_judges_a_run_once_its_team_exempts_its_code(shop: OptimizationScene) -> None:
    write(shop.root / "own")
    shop.import_version("own:v1", shop.root / "own")
    with pytest.raises(InvalidOptimization) as refused:
        shop.start(test="own:v1/spaces.py")
    assert "spaces.py" in refused.value.fields["test"][0]
    exempt_code(
        actor=Actor.system("reviewer"),
        team=shop.team,
        model=Model.objects.get(name="own"),
        reason="Ours.",
        until=timezone.now() + timedelta(1),
    )
    row = shop.start(test="own:v1/spaces.py", margin=40.0)
    shop.run_until(lambda: AccuracyCheck.objects.filter(run=row).exists(), seconds=200)
    verdict = AccuracyCheck.objects.get(run=row).verdicts.get()
    assert (verdict.metric, verdict.items, verdict.result) == ("spaces:score", 20, "passed")
    assert 0 <= verdict.parent_value < 1
    shop.end(cancel_run(row, actor=shop.actor), seconds=60)


@pytest.mark.process
@pytest.mark.django_db
def test_a_recipe_for_gpus_is_refused_where_none_is_ordered(
    shop: OptimizationScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidOptimization) as refused:
        shop.start("compressor/awq-w4a16", calibration="sets:v1/calibration.jsonl", engine="vllm")
    assert "needs a GPU" in refused.value.fields["recipe"][0]
