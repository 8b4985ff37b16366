"""Lists and search over many models and versions, over REST and as pages."""

import re
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from controlplane.garbage import collect_often_and_little
from perf.registry.table import heading, line, timed

LIMIT = 35.0
"""Times the own CPU of a loop of `_count` in the same rounds, which takes some 1.6 ms."""
WORDS = ("chat", "embed", "vision", "speech", "rerank", "code", "math", "guard")
ARCHITECTURES = ("LlamaForCausalLM", "Qwen3ForCausalLM", "BertModel", "MixtralForCausalLM")
MODEL_FILTERS = (
    "q=chat", "q=vision+guard", "q=mixtral", "q=production", "q=nothing-like-this", "team=team-3",
    "task=text", "served=true", "served=false", "architecture=qwen", "format=gguf",
    "parameters_min=7B&parameters_max=70B", "alias=prod", "alias=staging", "tag=evaluated", "tag=run%3D1-17",
    "created_by=person-3", "versions=failed",
    "q=chat&team=team-0&task=text&served=false&architecture=llama&format=safetensors&alias=prod&tag=eval",
)  # fmt: skip
VERSION_FILTERS = (
    "q=run", "state=ready&state=archived", "served=true", "tag=evaluated", "architecture=llama",
    "format=safetensors", "parameters_min=1B", "alias=production", "created_by=person",
)  # fmt: skip


def populate(models: int, versions: int, *, scopes: Sequence[str] = ("read",)) -> tuple[Any, str]:
    """Who looks, and the token of that person."""
    from django.utils import timezone

    from accounts import keys
    from accounts.models import ApiToken, Membership, Team, User
    from models_registry.models import Alias, Model, Version, VersionTag
    from models_registry.transitions import point_at_newest

    user = User.objects.create_user(username="perf")
    teams = [Team.objects.create(name=f"team-{number}") for number in range(8)]
    Membership.objects.bulk_create([Membership(user=user, team=team, role="developer") for team in teams])
    made = Model.objects.bulk_create(
        [
            Model(
                team=teams[number % 8],
                name=f"{WORDS[number % 8]}-{number:05}",
                task="text-generation" if number % 3 else "feature-extraction",
                description=f"Model {number}, tuned for {WORDS[number // 8 % 8]}.",
                created_by_name=f"person-{number % 40}",
            )
            for number in range(models)
        ]
    )
    now = timezone.now()
    for start in range(0, models, 50):
        rows = Version.objects.bulk_create(
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
                    architecture=ARCHITECTURES[model.pk % 4],
                    parameters=10**9 * (model.pk % 100),
                    author_name=f"person-{number % 40}",
                    message=f"Run {number}",
                    source=SOURCE,
                    config={"hidden_size": 4096, "layers": list(range(64))},
                    facts=FACTS | {"format": ("safetensors", "gguf")[model.pk % 2]},
                    scan=SCAN,
                    is_held=False,
                )
                for model in made[start : start + 50]
                for number in range(1, versions + 1)
            ],
            batch_size=500,
        )
        tags = [
            VersionTag(
                version=row, model_id=row.model_id, is_ready=True, name=f"run={row.model_id}-{row.number}"
            )
            for row in rows
        ]
        tags += [
            VersionTag(version=row, model_id=row.model_id, is_ready=True, name="evaluated")
            for row in rows
            if row.number % 10 == 0
        ]
        VersionTag.objects.bulk_create(tags, batch_size=1_000)
    newest = Version.objects.filter(number=versions).order_by("pk").values_list("model_id", "pk")
    for model in made:
        point_at_newest(model.pk)
    Alias.objects.bulk_create(
        [Alias(model_id=model, name="production", version_id=pk, moved_by="perf") for model, pk in newest]
    )
    _serve(teams[0], newest[:200])
    key = keys.new_key()
    ApiToken.objects.create(
        owner=user,
        name="perf",
        prefix=key.prefix,
        secret_hash=key.hash,
        scopes=list(scopes),
        expires_at=now + timedelta(days=1),
    )
    return user, key.text


def _serve(team: Any, newest: Iterable[tuple[int, int]]) -> None:
    """Each of the versions in a service and a deployment, most after a release, some before its end."""
    from clusters.models import Cluster, Deployment
    from releases.models import Release, Service

    cluster = Cluster.objects.create(name="perf", kind="embedded")
    owned = {"cluster": cluster, "team": team, "engine": "toy"}
    for number, (model, version) in enumerate(newest):
        is_moving = number % 10 == 0
        service = Service.objects.create(
            name=f"service-{number}",
            model_id=model,
            stable_version_id=None if is_moving else version,
            created_by="perf",
            **owned,
        )
        Deployment.objects.create(
            name=f"served-{number}",
            service=service.name,
            version_id=version,
            version_label="perf",
            replicas=1,
            slots=1,
            op_key=f"perf-{number}",
            **owned,
        )
        Release.objects.create(
            service=service,
            team=team,
            version_id=version,
            plan_name="perf",
            plan={},
            plan_hash="0" * 64,
            state="running" if is_moving else "promoted",
            requester="perf",
        )


def measure(models: int, versions: int, rounds: int) -> None:
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    user, token = populate(models, versions)
    collect_often_and_little()
    rest = Client(headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"})
    browser = Client(headers={"Host": "127.0.0.1"})
    browser.force_login(user)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")

    paces: list[float] = []

    def queries(ask: Callable[[], Any]) -> int:
        with CaptureQueriesContext(connection) as asked:
            assert ask().status_code == 200
        return len(asked)

    def measured(what: str, ask: Callable[[], Any]) -> None:
        count = queries(ask)
        taken, computed, loops = [], [], []
        for _ in range(rounds):
            own = time.thread_time()
            paces.append(timed(_count) * 1000)
            loops.append((time.thread_time() - own) * 1000)
            began, own = time.perf_counter(), time.thread_time()
            ask()
            computed.append((time.thread_time() - own) * 1000)
            taken.append((time.perf_counter() - began) * 1000)
        p95 = statistics.quantiles(taken, n=20)[-1]
        shown = f"{statistics.median(computed):.1f} / {statistics.median(taken):.1f} / {p95:.1f} ms"
        # Own CPU, beside that of a loop in the same rounds: others on the machine change neither.
        ratio = statistics.median(computed) / statistics.median(loops)
        limit = f"{ratio:.1f} <= {LIMIT:.0f} loops"
        line(f"{what} ({count} queries)", shown, limit, holds=ratio <= LIMIT)

    def pace() -> None:
        """Print the machine's pace: where others work on it, too, all rows above are slower by as much."""
        p95 = statistics.quantiles(paces, n=20)[-1]
        shown = f"{statistics.median(paces):.1f} / {p95:.1f} ms"
        line("a loop of additions before each round: p50 / p95", shown, "nearly the same, if undisturbed")
        paces.clear()

    def same(what: str, few: Callable[[], Any], many: Callable[[], Any]) -> None:
        one, other = queries(few), queries(many)
        line(what, f"{one} / {other} queries", "the same", holds=one == other)

    over = f"over {models:,} models x {versions} versions on {connection.vendor}, {rounds} rounds"
    heading(f"REST {over}: own CPU / p50 / p95")
    measured("first page of 100 models", lambda: rest.get("/api/v1/models/"))
    middle = rest.get(f"/api/v1/models/?limit={min(1000, models // 2)}").json()["next"]
    middle = re.sub(r"limit=\d+", "limit=100", middle.partition("127.0.0.1")[2])
    measured("page from the middle", lambda: rest.get(middle))
    for query in MODEL_FILTERS:
        measured(f"models ?{_short(query)}", lambda query=query: rest.get(f"/api/v1/models/?{query}"))
    versions_of = f"/api/v1/models/{WORDS[0]}-00000/versions/"
    measured("versions of a model", lambda: rest.get(versions_of))
    for query in VERSION_FILTERS:
        measured(f"versions ?{_short(query)}", lambda query=query: rest.get(f"{versions_of}?{query}"))
    measured("one model", lambda: rest.get(f"/api/v1/models/{WORDS[0]}-00000/"))
    measured("one version", lambda: rest.get(f"{versions_of}v1/"))
    same(
        "5 models and 100",
        lambda: rest.get("/api/v1/models/?limit=5"),
        lambda: rest.get("/api/v1/models/?limit=100"),
    )
    same("5 versions and 50", lambda: rest.get(f"{versions_of}?limit=5"), lambda: rest.get(versions_of))
    pace()

    heading(f"Pages {over}: own CPU / p50 / p95")
    measured("first page of models", lambda: browser.get("/models/"))
    measured("page 20", lambda: browser.get("/models/?page=20"))
    for sort in ("-size", "-newest", "team", "created"):
        measured(f"sorted by {sort}", lambda sort=sort: browser.get(f"/models/?sort={sort}"))
    for query in MODEL_FILTERS:
        measured(f"models ?{_short(query)}", lambda query=query: browser.get(f"/models/?{query}"))
    part = {"HX-Request": "true", "HX-Target": "listing"}
    measured("as one types: ?q=vis", lambda: browser.get("/models/?q=vis", headers=part))
    page_of = f"/models/{WORDS[0]}-00000/"
    measured("versions of a model", lambda: browser.get(page_of))
    for query in VERSION_FILTERS:
        measured(f"versions ?{_short(query)}", lambda query=query: browser.get(f"{page_of}?{query}"))
    measured("one version", lambda: browser.get(f"{page_of}v1/"))
    same(
        "1 model and a page of them",
        lambda: browser.get(f"/models/?q={WORDS[0]}-00000"),
        lambda: browser.get("/models/"),
    )
    # The newest one's name is no part of another's: a list of none asks less.
    last = f"{page_of}?q=v{versions}"
    same("1 version and a page of them", lambda: browser.get(last), lambda: browser.get(page_of))
    pace()


def _count() -> None:
    total = 0
    for number in range(40_000):
        total += number


def _short(query: str) -> str:
    return query if len(query) < 40 else f"{query[:28]}... all at once"


SOURCE = {"kind": "directory", "uri": "file:///srv/x", "root": "/srv", "path": "x", "ignore_patterns": []}
SCAN = {"verdict": "passed", "notes": [], "formats": {"safetensors": {"files": 4, "bytes": 1}}}
FACTS: dict[str, Any] = {
    "tensors": 291,
    "weights": [{"dtype": "BF16", "elements": 8_030_261_248, "bytes": 16_060_522_496}],
    "layers": 32,
    "hidden_size": 4096,
    "attention_heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "vocabulary": 128_256,
    "rope": {"theta": 500_000.0, "scaling": "llama3", "factor": 8.0, "original_context_length": 8192},
    "quantization": None,
    "memory": {
        "weights_bytes": 16_060_522_496,
        "kv_cache_bytes_per_1k_tokens": 131_072_000,
        "kv_cache_dtype": "BF16",
    },
    "unknown": [],
}
