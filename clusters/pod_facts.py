"""Pod settings of a service or deployment, as lines of a page."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.backends.servers import USUAL
from serving.engines.registry import IMAGE_ENGINES


class PodFact(NamedTuple):
    label: str
    values: tuple[str, ...]
    """As Kubernetes writes them."""


def pod_facts(engine: str, resources: Mapping[str, Any], pod: Mapping[str, Any]) -> list[PodFact]:
    """Yield what differs from the cluster's own choice. `resources` and `pod`: as they are stored."""
    return [fact for fact in _facts(engine, resources, pod) if fact.values]


def _facts(engine: str, resources: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[PodFact]:
    yield PodFact(_("GPU resource"), _one(resources.get("gpu_resource")))
    yield PodFact(_("CPU"), _range(resources.get("cpus"), resources.get("cpu_limit")))
    yield PodFact(_("Memory"), _range(resources.get("memory"), resources.get("memory_limit")))
    yield PodFact(_("Shared memory"), _one(resources.get("shared_memory")))
    if (nodes := pod.get("nodes_per_replica", 1)) > 1:
        words = ngettext("%(nodes)s machine", "%(nodes)s machines", nodes) % {"nodes": nodes}
        yield PodFact(_("Machines per replica"), (words,))
    if pod.get("replicas") == "external":
        yield PodFact(_("Replicas"), (_("managed externally: by an autoscaler, or kubectl"),))
    yield PodFact(_("Namespace"), _one(pod.get("namespace")))
    yield PodFact(_("Node selector"), _pairs(pod.get("node_selector")))
    yield PodFact(_("Tolerations"), tuple(_toleration(one) for one in pod.get("tolerations", ())))
    yield PodFact(_("Topology spread"), tuple(_spread(one) for one in pod.get("topology_spread", ())))
    yield PodFact(_("Priority class"), _one(pod.get("priority_class")))
    yield PodFact(_("Runtime class"), _one(pod.get("runtime_class")))
    yield PodFact(_("Image pull secrets"), tuple(pod.get("image_pull_secrets", ())))
    yield PodFact(_("Environment"), _pairs(pod.get("env")))
    secret = {name: f"{one['secret']}/{one['key']}" for name, one in pod.get("secret_env", {}).items()}
    yield PodFact(_("Environment from secrets"), _pairs(secret))
    for key, label in (
        ("load_within_seconds", _("Loads within")),
        ("grace_seconds", _("Termination grace")),
    ):
        yield PodFact(label, (f"{pod[key]} s",) if key in pod else ())
    if engine in IMAGE_ENGINES or pod.get("server") is not None:
        yield from _server(engine, pod.get("server") or {})


def _server(engine: str, given: Mapping[str, Any]) -> Iterator[PodFact]:
    def said(key: str) -> Any:
        return given[key] if given.get(key) is not None else getattr(USUAL[engine], key)

    command = " ".join((*said("command"), *said("args")))
    yield PodFact(_("Server"), (command or _("the image's own command"),))
    port = said("port")
    yield PodFact(_("Health"), (f":{port}{said('health_path')}",))
    yield PodFact(_("Metrics"), (f":{said('metrics_port') or port}{said('metrics_path')}",))


def _one(value: Any) -> tuple[str, ...]:
    return (str(value),) if value else ()


def _range(least: Any, most: Any) -> tuple[str, ...]:
    if most and most != least:
        limit = _("at most %(limit)s") % {"limit": most}
        return (f"{least}, {limit}" if least else limit,)
    return _one(least)


def _pairs(of: Mapping[str, str] | None) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in (of or {}).items())


def _toleration(one: Mapping[str, Any]) -> str:
    """Format a toleration as `kubectl describe` does."""
    key, value, effect = one.get("key", ""), one.get("value"), one.get("effect") or ""
    text = f"{key}={value}" if value is not None else key
    text += f":{effect}" if effect else ""
    if value is None:
        text = f"{text} op=Exists".strip()  # untranslated
    return f"{text} for {one['seconds']}s" if one.get("seconds") is not None else text  # untranslated


def _spread(one: Mapping[str, Any]) -> str:
    when = one.get("when_unsatisfiable", "ScheduleAnyway")
    return f"{one['topology_key']} (max skew {one.get('max_skew', 1)}, {when})"  # untranslated
