"""Our eviction beside kvpress' SnapKV on the same weights, in the environment of the family `press`."""

import json
import subprocess
from pathlib import Path

import pytest

from optimization.programs.environment import environment_of
from tests.serving.test_kv_eviction import PROMPT, RECENT, SHARE, gathered_cache, prompt, read
from tests.serving.tiny_model import write_tiny_model

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]


def test_our_eviction_keeps_the_positions_that_kvpress_keeps(tmp_path: Path) -> None:
    import torch

    python = environment_of("press").ensure(tmp_path / "environments") / "bin" / "python"
    directory = write_tiny_model(tmp_path / "model", context=512)
    ids = prompt()
    asked = ["-m", "tests.optimization.snapkv_positions", directory, str(SHARE), str(RECENT), json.dumps(ids)]
    done = subprocess.run([python, *asked], capture_output=True, check=False, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    kept = [torch.tensor(one) for one in json.loads(done.stdout.splitlines()[-1])]
    assert len(kept) == 2
    _plain, cache = gathered_cache(directory, ids, kept)
    model, _scheduler, _continuation = read(directory, ids, parts=1, prompt_kv_sinks=0)
    for layer, chosen in enumerate(kept):
        assert chosen.shape[1] == int(PROMPT * SHARE)
        held = model._slot_cache.keys[layer][0, :, : int(PROMPT * SHARE)]
        torch.testing.assert_close(held, cache.layers[layer].keys[0], rtol=1e-4, atol=1e-5)
