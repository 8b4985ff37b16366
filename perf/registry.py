"""How fast the registry is: `python perf/registry.py [--gigabytes 1] [--models 2000] [--versions 50]
[--blobs 100000]`.

Import: a directory of safetensors shards is hashed by coreutils' `sha256sum` on one core, imported by the
process that Slipway starts for it, then imported again under another name; the store is on the same disk.
Lists and search: REST answers over many models and versions on a database of their own (SQLite, or the
server in `SLIPWAY_DATABASE_URL`), as a client sees them, with the number of queries. Collection: a store of
small blobs of which versions need every second one. Every figure stands beside its limit.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

MEBIBYTE = 1024 * 1024
SHARD_BYTES = 256 * MEBIBYTE


def line(what: str, measured: str, limit: str, *, holds: bool | None = None) -> None:
    verdict = {True: "ok", False: "MISSED", None: ""}[holds]
    print(f"{what:<52} {measured:>22}   {limit:<28} {verdict}", flush=True)


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


def measure_import(gigabytes: float) -> None:
    from models_registry import importer
    from models_registry.importer import RESULT, Job
    from models_registry.importing import DirectorySource, ImportResult
    from models_registry.store import LocalStore

    home = Path(tempfile.mkdtemp(prefix="slipway-perf-", dir=os.environ.get("SLIPWAY_PERF_DIR")))
    try:
        source = home / "roots/model"
        source.mkdir(parents=True)
        total = int(gigabytes * 1024) * MEBIBYTE
        paths = shards(source, total_bytes=total)
        store = LocalStore(home / "store")
        guardian = importer.guardian()

        def imported(key: str) -> ImportResult:
            job = Job(
                store=str(store.root),
                key=key,
                attempt=1,
                source=DirectorySource(str(home / "roots"), "model"),
                guardian_pid=guardian.pid,
                guardian_started=guardian.create_time(),
            )
            command = [sys.executable, "-m", "models_registry.importer", job.as_json()]
            subprocess.run(command, check=True, cwd=Path(__file__).resolve().parents[1])
            result = json.loads(store.read_note(key, RESULT) or b"{}")
            result.pop("attempt")
            found = ImportResult.from_json(result)
            assert found.outcome == "accepted", found.reason
            store.publish(key, found.manifest)
            store.discard(key, is_referenced=set)
            return found

        def timed(work: Callable[[], object]) -> float:
            began = time.monotonic()
            work()
            return time.monotonic() - began

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
        print(f"\nImport of {total / 1024**3:.1f} GiB in {len(paths)} shards, {os.cpu_count()} cores\n")
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
    finally:
        shutil.rmtree(home)


def populate(models: int, versions: int) -> str:
    """Rows as imports leave them, and a token of somebody who may see them all."""
    from datetime import timedelta

    from django.db.models import OuterRef
    from django.utils import timezone

    from accounts import keys
    from accounts.models import ApiToken, Membership, Team, User
    from models_registry.models import Alias, Model, Version

    user = User.objects.create_user(username="perf")
    teams = [Team.objects.create(name=f"team-{number}") for number in range(8)]
    Membership.objects.bulk_create([Membership(user=user, team=team, role="developer") for team in teams])
    words = ("chat", "embed", "vision", "speech", "rerank", "code", "math", "guard")
    made = Model.objects.bulk_create(
        [
            Model(
                team=teams[number % 8],
                name=f"{words[number % 8]}-{number:05}",
                task="text-generation" if number % 3 else "feature-extraction",
                description=f"Model {number}, tuned for {words[number // 8 % 8]}.",
                created_by_name="perf",
            )
            for number in range(models)
        ]
    )
    now = timezone.now()
    architectures = ("LlamaForCausalLM", "Qwen3ForCausalLM", "BertModel", "MixtralForCausalLM")
    for start in range(0, models, 50):
        Version.objects.bulk_create(
            [
                Version(
                    model=model,
                    number=number,
                    name=f"v{number}",
                    state="ready",
                    digest=f"{model.pk:032x}{number:032x}",
                    ready_at=now,
                    size_bytes=10**9 + number,
                    file_count=8,
                    architecture=architectures[model.pk % 4],
                    parameters=10**9,
                    author_name="perf",
                    message=f"Run {number}",
                    source={
                        "kind": "directory",
                        "uri": "file:///srv/x",
                        "root": "/srv",
                        "path": "x",
                        "ignore_patterns": [],
                    },
                    config={"hidden_size": 4096, "layers": list(range(64))},
                    scan={
                        "verdict": "passed",
                        "notes": [],
                        "formats": {"safetensors": {"files": 4, "bytes": 1}},
                    },
                    is_held=False,
                )
                for model in made[start : start + 50]
                for number in range(1, versions + 1)
            ],
            batch_size=500,
        )
    newest = Version.objects.filter(number=versions).values_list("model_id", "pk")
    Model.objects.update(
        latest=Version.objects.filter(model=OuterRef("pk"), number=versions).values("pk")[:1]
    )
    Alias.objects.bulk_create(
        [Alias(model_id=model, name="production", version_id=pk, moved_by="perf") for model, pk in newest]
    )
    key = keys.new_key()
    ApiToken.objects.create(
        owner=user,
        name="perf",
        prefix=key.prefix,
        secret_hash=key.hash,
        scopes=["read"],
        expires_at=now + timedelta(days=1),
    )
    return key.text


@contextmanager
def database() -> Iterator[None]:
    """Django over a home of its own; once in a process."""
    home = Path(tempfile.mkdtemp(prefix="slipway-perf-", dir=os.environ.get("SLIPWAY_PERF_DIR")))
    os.environ["SLIPWAY_HOME"] = str(home)
    os.environ["SLIPWAY_LOG_LEVEL"] = "ERROR"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")
    try:
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield
    finally:
        shutil.rmtree(home)


def measure_collection(blobs: int) -> None:
    from django.conf import settings
    from django.db import connection

    from common.actor import Actor
    from common.reconcile import kernel
    from models_registry.models import Collection
    from models_registry.services.storage import begin_collection

    store = Path(settings.SLIPWAY_STORE_DIR)
    names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(blobs)]
    for part in range(256):
        (store / f"blobs/sha256/{part:02x}").mkdir(parents=True)
    for name in names:
        (store / "blobs/sha256" / name[:2] / name).write_bytes(b"x" * 100)
    needed_by_a_version(names[::2])

    def collected() -> tuple[float, Collection]:
        began = time.monotonic()
        row = begin_collection(actor=Actor.system("perf"), grace_seconds=0)
        while kernel.advance("collection", row.pk):
            pass
        row.refresh_from_db()
        assert row.state == "done", row.last_error
        return time.monotonic() - began, row

    print(f"\nCollection over {blobs:,} blobs on {connection.vendor}, every second one needed\n")
    first, row = collected()
    line("all: look, mark, delete", f"{first:.1f} s", "< 30 s", holds=first < 30)
    line(
        "  blobs deleted by it",
        f"{row.deleted_blobs:,}",
        f"{blobs // 2:,}",
        holds=row.deleted_blobs == blobs // 2,
    )
    second, row = collected()
    line("again, with nothing to delete", f"{second:.1f} s", "< 30 s", holds=second < 30)
    left = sum(len(files) for _, _, files in os.walk(store / "blobs"))
    line("  blobs left", f"{left:,}", f"{len(names[::2]):,}", holds=left == len(names[::2]))


def needed_by_a_version(blobs: Sequence[str]) -> None:
    from django.utils import timezone

    from accounts.models import Team
    from models_registry.models import Model, Version, VersionFile

    model = Model.objects.create(team=Team.objects.create(name="perf"), name="perf")
    version = Version.objects.create(
        model=model,
        number=1,
        name="v1",
        state="ready",
        digest="0" * 64,
        ready_at=timezone.now(),
        file_count=len(blobs),
        is_held=False,
    )
    rows = (
        VersionFile(version=version, path=f"{number}.json", size=100, sha256=sha256, format="json")
        for number, sha256 in enumerate(blobs)
    )
    VersionFile.objects.bulk_create(rows, batch_size=1000)


def measure_lists(models: int, versions: int, rounds: int) -> None:
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    token = populate(models, versions)
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"})
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    print(f"\nREST over {models:,} models x {versions} versions on {connection.vendor}, {rounds} rounds\n")
    middle = client.get(f"/api/v1/models/?limit={min(1000, models // 2)}").json()["next"]
    middle = re.sub(r"limit=\d+", "limit=100", middle.partition("127.0.0.1")[2])
    for what, path in (
        ("first page of 100 models", "/api/v1/models/"),
        ("page from the middle", middle),
        ("search: one word, many hits", "/api/v1/models/?q=chat"),
        ("search: two words", "/api/v1/models/?q=vision+guard"),
        ("search: architecture", "/api/v1/models/?q=mixtral"),
        ("search: alias", "/api/v1/models/?q=production"),
        ("search: no hit", "/api/v1/models/?q=nothing-like-this"),
        ("versions of a model", "/api/v1/models/chat-00000/versions/"),
        ("one model", "/api/v1/models/chat-00000/"),
        ("one version", "/api/v1/models/chat-00000/versions/v1/"),
    ):
        with CaptureQueriesContext(connection) as queries:
            assert client.get(path).status_code == 200, path
        count = len(queries)  # now: the next request empties the log
        taken = []
        for _ in range(rounds):
            began = time.perf_counter()
            client.get(path)
            taken.append((time.perf_counter() - began) * 1000)
        p95 = statistics.quantiles(taken, n=20)[-1]
        shown = f"{statistics.median(taken):.1f} / {p95:.1f} ms"
        line(f"{what} ({count} queries), p50 / p95", shown, "p95 < 50 ms", holds=p95 < 50)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--versions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--blobs", type=int, default=100_000)
    parser.add_argument("--only", choices=("import", "lists", "collection"))
    options = parser.parse_args()
    if options.only in (None, "import"):
        measure_import(options.gigabytes)
    if options.only == "import":
        return
    with database():
        if options.only in (None, "lists"):
            measure_lists(options.models, options.versions, options.rounds)
        if options.only in (None, "collection"):
            measure_collection(options.blobs)


if __name__ == "__main__":
    main()
