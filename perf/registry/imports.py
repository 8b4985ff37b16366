"""Import of a directory, beside `sha256sum` over the same files."""

import json
import secrets
import subprocess
import time
from pathlib import Path

from common.hosts import this_host
from common.jobs.runners.subprocess import SubprocessRunner
from model_store.backends.local import LocalStore
from model_store.processes.job import StagingJob
from models_registry.importing.directory import DirectorySource
from models_registry.importing.results import ImportResult
from perf.registry.table import MEBIBYTE, ROOT, directory, heading, line, timed

SHARD_BYTES = 256 * MEBIBYTE


def shards(directory: Path, *, total_bytes: int) -> list[Path]:
    """Random weights that parse, in files of at most 256 MiB."""
    made = []
    with Path("/dev/urandom").open("rb") as noise:
        for number in range(-(-total_bytes // SHARD_BYTES)):
            size = min(SHARD_BYTES, total_bytes - number * SHARD_BYTES)
            tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
            header = json.dumps({f"w{number}": tensor}).encode()
            path = directory / f"model-{number:05}.safetensors"
            with path.open("wb") as file:
                file.write(len(header).to_bytes(8, "little") + header)
                for _ in range(size // MEBIBYTE):
                    file.write(noise.read(MEBIBYTE))
                file.write(noise.read(size % MEBIBYTE))
            made.append(path)
    (directory / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    return made


def run(job: StagingJob, jobs: Path) -> ImportResult:
    """Run to its end what the step of a row starts."""
    runner = SubprocessRunner(jobs, host=this_host(), code=ROOT, is_full=lambda: False)
    spec = job.spec(secrets.token_hex(8), "perf")
    runner.start(spec)
    while (seen := runner.observe(spec.name)).is_live:
        time.sleep(0.01)
    assert seen.result is not None, f"{seen.why} {seen.log_tail}"
    found = ImportResult.from_json(dict(seen.result))
    assert found.outcome == "accepted", found.reason
    return found


def published(store: LocalStore, job: StagingJob) -> ImportResult:
    found = run(job, store.root.with_name("jobs"))
    store.publish(job.key, found.manifest)
    store.discard(job.key, is_referenced=set)
    return found


def measure(gigabytes: float) -> None:
    with directory() as home:
        source = home / "roots/model"
        source.mkdir(parents=True)
        total = int(gigabytes * 1024) * MEBIBYTE
        paths = shards(source, total_bytes=total)
        store = LocalStore(home / "store")

        def imported(key: str) -> ImportResult:
            source = DirectorySource(str(home / "roots"), "model")
            return published(store, StagingJob(str(store.root), key, source))

        heading(f"Import of {total / 1024**3:.1f} GiB in {len(paths)} shards")
        # Once before, so that each of the two reads what is in the page cache or neither does.
        timed(lambda: subprocess.run(["cat", *paths], check=True, stdout=subprocess.DEVNULL))
        alone = min(
            timed(lambda: subprocess.run(["sha256sum", *paths], check=True, stdout=subprocess.DEVNULL))
            for _ in range(2)
        )
        results: list[ImportResult] = []
        first = timed(lambda: results.append(imported("1")))
        second = timed(lambda: results.append(imported("2")))
        rate = total / MEBIBYTE
        line("sha256sum alone, one core", f"{rate / alone:,.0f} MiB/s", "(the peer)")
        ratio = alone / first
        line("import: hash, copy, check, sync, publish", f"{rate / first:,.0f} MiB/s", "")
        line("  beside sha256sum", f"{ratio:.2f} x", ">= 0.80 x", holds=ratio >= 0.8)
        line("second import of the same content", f"{rate / second:,.0f} MiB/s", "")
        copied = results[1].copied_bytes
        line("  bytes copied by it", f"{copied:,}", "0", holds=copied == 0)
        used = sum(path.stat().st_size for path in (store.root / "blobs").rglob("*") if path.is_file())
        line("bytes in the store after both", f"{used:,}", f"{results[0].manifest.size_bytes:,}",
             holds=used == results[0].manifest.size_bytes)  # fmt: skip
