"""What a service asks of its workers' pods as fields of a form, and the form's fields as JSON again.

Lists and mappings are text of one line each: `KEY=VALUE`; taints as `kubectl taint` writes them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.backends.servers import USUAL

Words = Any
RESOURCES, POD, SERVER = "resources", "pod", "server"
_TOLERATION = re.compile(
    r"(?P<key>[^=:\s]*)(=(?P<value>[^:\s]*))?(:(?P<effect>\w+))?( for (?P<seconds>\d+)s)?"
)
_SPREAD = re.compile(r"(?P<key>[^:\s]+)(:(?P<when>[A-Za-z]+))?(:(?P<skew>\d+))?")


@dataclass(frozen=True, slots=True)
class PodField:
    """`read` makes JSON of what was typed, or raises ValueError with a sentence; `write` the reverse."""

    group: str
    key: str
    label: Words
    help: Words = ""
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    is_long: bool = False
    choices: tuple[tuple[str, Words], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.group}_{self.key}"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for line in _lines(text):
        key, is_pair, value = line.partition("=")
        if not is_pair or not key.strip():
            raise ValueError(_("%(line)s: write NAME=VALUE, one to a line.") % {"line": line})
        found[key.strip()] = value
    return found


def _written(pairs: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={value}" for key, value in pairs.items())


def _secrets(text: str) -> dict[str, dict[str, str]]:
    found = {}
    for name, place in _pairs(text).items():
        secret, _slash, key = place.partition("/")
        if not secret or not key:
            raise ValueError(_("%(name)s: write NAME=SECRET/KEY.") % {"name": name})
        found[name] = {"secret": secret, "key": key}
    return found


def _secrets_written(found: Mapping[str, Mapping[str, str]]) -> str:
    return _written({name: f"{one['secret']}/{one['key']}" for name, one in found.items()})


def _tolerations(text: str) -> list[dict[str, Any]]:
    found = []
    for line in _lines(text):
        read = _TOLERATION.fullmatch(line)
        if read is None:
            raise ValueError(_("%(line)s: write KEY=VALUE:EFFECT, such as gpu:NoSchedule.") % {"line": line})
        one: dict[str, Any] = {key: read[key] for key in ("key", "effect") if read[key]}
        if read["value"] is not None:
            one["value"] = read["value"]
        found.append(one | ({"seconds": int(read["seconds"])} if read["seconds"] else {}))
    return found


def _tolerations_written(found: list[dict[str, Any]]) -> str:
    return "\n".join(_toleration(one) for one in found)


def _toleration(one: Mapping[str, Any]) -> str:
    has_value = one.get("value") is not None or one.get("operator") == "Equal"
    text = str(one.get("key", "")) + (f"={one.get('value') or ''}" if has_value else "")
    text += f":{one['effect']}" if one.get("effect") else ""
    return text + (f" for {one['seconds']}s" if one.get("seconds") is not None else "")  # untranslated


def _spreads(text: str) -> list[dict[str, Any]]:
    found = []
    for line in _lines(text):
        read = _SPREAD.fullmatch(line)
        if read is None:
            raise ValueError(_("%(line)s: write the key of a label of machines.") % {"line": line})
        one: dict[str, Any] = {"topology_key": read["key"]}
        one |= {"when_unsatisfiable": read["when"]} if read["when"] else {}
        found.append(one | ({"max_skew": int(read["skew"])} if read["skew"] else {}))
    return found


def _spreads_written(found: list[dict[str, Any]]) -> str:
    return "\n".join(
        ":".join(str(one[key]) for key in ("topology_key", "when_unsatisfiable", "max_skew") if key in one)
        for one in found
    )


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(_("Give a whole number.")) from None


def _metrics(text: str) -> dict[str, str]:
    return {} if text.strip().lower() == OPENTELEMETRY else _pairs(text)


def _metrics_written(names: Mapping[str, str]) -> str:
    return _written(names) or OPENTELEMETRY


OPENTELEMETRY = "opentelemetry"
"""Says that a server's metrics have the names of OpenTelemetry."""
_AMOUNT = gettext_lazy("As Kubernetes writes it: 500m, 16Gi. Empty: as much as there is.")
_LINES: Mapping[str, Any] = {"read": _lines, "write": "\n".join, "is_long": True}
_PAIRS: Mapping[str, Any] = {"read": _pairs, "write": _written, "is_long": True}
FIELDS = (
    PodField(
        RESOURCES,
        "gpu_resource",
        gettext_lazy("GPU resource"),
        gettext_lazy("nvidia.com/gpu unless named: amd.com/gpu, or a slice such as nvidia.com/mig-1g.10gb."),
    ),
    PodField(RESOURCES, "cpus", gettext_lazy("CPU request"), _AMOUNT),
    PodField(RESOURCES, "cpu_limit", gettext_lazy("CPU limit")),
    PodField(RESOURCES, "memory", gettext_lazy("Memory request"), _AMOUNT),
    PodField(
        RESOURCES, "memory_limit", gettext_lazy("Memory limit"), gettext_lazy("Empty: what is requested.")
    ),
    PodField(RESOURCES, "shared_memory", gettext_lazy("Shared memory"), gettext_lazy("Of /dev/shm.")),
    PodField(POD, "namespace", gettext_lazy("Namespace")),
    PodField(POD, "priority_class", gettext_lazy("Priority class")),
    PodField(POD, "runtime_class", gettext_lazy("Runtime class")),
    PodField(
        POD,
        "nodes_per_replica",
        gettext_lazy("Machines per replica"),
        gettext_lazy("More than 1: a LeaderWorkerSet; with the engine vllm."),
        _whole,
    ),
    PodField(
        POD,
        "replicas",
        gettext_lazy("Replicas managed by"),
        gettext_lazy("An autoscaler starts from the replicas of the service."),
        choices=(
            ("", gettext_lazy("Slipway")),
            ("external", gettext_lazy("An autoscaler, such as HPA or KEDA")),
        ),
    ),
    PodField(
        POD,
        "load_within_seconds",
        gettext_lazy("Loads within (s)"),
        gettext_lazy("Then a worker that is not ready is started anew."),
        _whole,
    ),
    PodField(
        POD,
        "grace_seconds",
        gettext_lazy("Termination grace (s)"),
        gettext_lazy("For the requests that a worker has when it is to end."),
        _whole,
    ),
    PodField(
        POD,
        "node_selector",
        gettext_lazy("Node selector"),
        gettext_lazy("KEY=VALUE, one to a line."),
        **_PAIRS,
    ),
    PodField(
        POD,
        "tolerations",
        gettext_lazy("Tolerations"),
        gettext_lazy("As kubectl writes taints, one to a line: gpu:NoSchedule, team=a:NoExecute for 300s."),
        _tolerations,
        _tolerations_written,
        is_long=True,
    ),
    PodField(
        POD,
        "topology_spread",
        gettext_lazy("Topology spread"),
        gettext_lazy("Keys of labels of machines: topology.kubernetes.io/zone, or zone:DoNotSchedule:1."),
        _spreads,
        _spreads_written,
        is_long=True,
    ),
    PodField(
        POD,
        "image_pull_secrets",
        gettext_lazy("Image pull secrets"),
        gettext_lazy("Names, one to a line."),
        **_LINES,
    ),
    PodField(POD, "env", gettext_lazy("Environment"), gettext_lazy("NAME=VALUE, one to a line."), **_PAIRS),
    PodField(
        POD,
        "secret_env",
        gettext_lazy("Environment from secrets"),
        gettext_lazy("NAME=SECRET/KEY, of secrets that the cluster's operator has opened (env_secrets)."),
        _secrets,
        _secrets_written,
        is_long=True,
    ),
)
SERVER_FIELDS = (
    PodField(
        SERVER,
        "command",
        gettext_lazy("Server command"),
        gettext_lazy("One part to a line; empty: as usual for the engine, or the image's own."),
        **_LINES,
    ),
    PodField(
        SERVER,
        "args",
        gettext_lazy("Server arguments"),
        gettext_lazy("One to a line; $(MODEL_DIR), $(MODEL_NAME), $(MODEL_VERSION) and $(PORT) are known."),
        **_LINES,
    ),
    PodField(SERVER, "port", gettext_lazy("Server port"), "", _whole),
    PodField(SERVER, "health_path", gettext_lazy("Health path")),
    PodField(SERVER, "model_path", gettext_lazy("Model path"), gettext_lazy("Where it finds the files.")),
    PodField(SERVER, "metrics_path", gettext_lazy("Metrics path")),
    PodField(SERVER, "metrics_port", gettext_lazy("Metrics port"), "", _whole),
    PodField(
        SERVER,
        "metrics",
        gettext_lazy("Metrics"),
        gettext_lazy(
            "Of the engine openai: WHAT=NAME, one to a line (running, worked_seconds, waiting, requests, "
            "errors, refused, prompt_tokens, completion_tokens, ttft, tpot), or opentelemetry for its names. "
            "Empty: it has none."
        ),
        _metrics,
        _metrics_written,
        is_long=True,
    ),
)
_NAMES = frozenset(field.name for field in (*FIELDS, *SERVER_FIELDS))


class PodFormField(forms.CharField):
    """JSON of a service as text."""

    def __init__(self, of: PodField, **options: Any) -> None:
        widget: forms.Widget = forms.TextInput()
        if of.choices:
            widget = forms.Select(choices=of.choices)
        elif of.is_long:
            widget = forms.Textarea(attrs={"rows": 2, "class": "mono"})
        widget.attrs["spellcheck"] = "false"
        super().__init__(
            label=of.label, help_text=of.help, required=False, max_length=20_000, widget=widget, **options
        )
        self._of = of

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return self._of.write(value)

    def clean(self, value: Any) -> Any:
        text = super().clean(value).strip()
        if not text:
            return None
        try:
            return self._of.read(text)
        except ValueError as fault:
            raise forms.ValidationError(str(fault)) from None


def add_pod_fields(form: forms.Form, engine: str) -> None:
    """Fill the fields from what is stored: `resources` and `pod` among the form's initial values."""
    resources, pod = form.initial.get("resources") or {}, form.initial.get("pod") or {}
    stored = {RESOURCES: resources, POD: pod, SERVER: pod.get("server") or {}}
    for one in (*FIELDS, *(SERVER_FIELDS if engine in USUAL else ())):
        form.fields[one.name] = PodFormField(one)
        form.initial.setdefault(one.name, stored[one.group].get(one.key))


def pod_fields(form: forms.Form) -> list[forms.BoundField]:
    return [field for field in form.visible_fields() if field.name in _NAMES]


def is_pod_field(name: str) -> bool:
    return name in _NAMES


def asked_in(form: forms.Form, stored: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Resources (without GPUs) and pod of a valid form. `stored`: the pod as it was; not all has a field."""
    found: dict[str, dict[str, Any]] = {RESOURCES: {}, POD: {}, SERVER: {}}
    for one in (*FIELDS, *SERVER_FIELDS):
        value = form.cleaned_data.get(one.name)
        if value not in (None, "", []):
            found[one.group][one.key] = value
    known = {one.key for one in FIELDS if one.group == POD} | {"server"}
    pod = {key: value for key, value in stored.items() if key not in known} | found[POD]
    if found[SERVER]:
        pod["server"] = found[SERVER]
    return found[RESOURCES], pod


def field_of(place: str) -> str:
    """`pod.tolerations.0.effect` as the field where a fault of it is shown."""
    group, _dot, rest = place.partition(".")
    parts = rest.split(".")
    if parts[:1] == ["server"] and len(parts) > 1:
        group, parts = SERVER, parts[1:]
    name = f"{group}_{parts[0]}"
    return name if name in _NAMES else parts[0] if group == RESOURCES else place
