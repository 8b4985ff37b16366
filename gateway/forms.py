"""Forms of a cluster's gateway. Fields only: services decide."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from clusters.backends.kinds import abilities_of
from clusters.models import Cluster
from common.errors import Invalid, SlipwayError
from common.pages.fields import LinesField, PairsField, lines_input, name_input
from common.pages.forms import PLAIN, blame
from gateway.backends.prometheus import TOKEN
from gateway.models import Gateway
from gateway.states import COUNTS_ITSELF, GatewayKind, MetricsKind

USUAL = {"scheme": "http"}
"""Choices that need not be said."""

OF_KIND: Mapping[str, tuple[str, ...]] = {
    GatewayKind.ENVOY: ("port", "admin_port", "bind"),
    GatewayKind.GATEWAY_API: (
        "gateway", "gateway_namespace", "section", "namespace", "namespaces", "hostnames", "scheme",
        "request_timeout", "assume_features", "http_routes", "pool_picker", "pool_picker_port",
        "pool_failure_mode",
    ),
}  # fmt: skip
OF_METRICS: Mapping[str, tuple[str, ...]] = {
    MetricsKind.PROMETHEUS: (
        "prometheus_url", "prometheus_deployment_label", "prometheus_labels", "prometheus_stale_seconds",
        "prometheus_token", "drop_token",
    ),
    MetricsKind.ENVOY: ("envoy_urls",),
}  # fmt: skip
POOL = {"pool_picker": "picker", "pool_picker_port": "port", "pool_failure_mode": "failure_mode"}
PROMETHEUS = {f"prometheus_{name}": name for name in ("url", "deployment_label", "labels", "stale_seconds")}
DIFFERENT = {"prometheus": "prometheus_url", "envoy": "envoy_urls", "inference_pools": "pool_picker"}
"""Settings that are several fields: what is wrong with one of no name of its own stands at this."""


class GatewayForm(forms.Form):
    """The fields of the chosen kind, and of who counts."""

    revision = forms.IntegerField(widget=forms.HiddenInput, required=False)
    kind = forms.ChoiceField(label=_("Kind"), choices=GatewayKind.choices)
    gateway = forms.CharField(
        label=_("Gateway"),
        max_length=253,
        widget=name_input("models"),
        help_text=_("Of the cluster, that routes attach to (their parentRefs)."),
    )
    gateway_namespace = forms.CharField(
        label=_("Namespace of the Gateway"),
        required=False,
        max_length=63,
        widget=name_input("infra"),
        help_text=_("Empty: that of the routes."),
    )
    section = forms.CharField(
        label=_("Listener"),
        required=False,
        max_length=253,
        widget=name_input("web"),
        help_text=_("Its section name; empty: all of them."),
    )
    namespace = forms.CharField(
        label=_("Namespace of the routes"),
        required=False,
        max_length=63,
        widget=name_input("slipway"),
        help_text=_("Where HTTPRoutes are made, and where workers run; empty: slipway."),
    )
    namespaces = LinesField(
        label=_("Other namespaces of workers"),
        required=False,
        widget=lines_input(),
        help_text=_("One per line. The owner of each must allow it by a ReferenceGrant."),
    )
    hostnames = LinesField(
        label=_("Hostnames"),
        required=False,
        widget=lines_input("models.example.org"),
        help_text=_("One per line; none: those of the listener."),
    )
    scheme = forms.ChoiceField(
        label=_("Scheme"),
        choices=(("http", "http"), ("https", "https")),
        required=False,
        help_text=_("Of the address that clients are shown."),
    )
    request_timeout = forms.CharField(
        label=_("Request timeout"),
        required=False,
        max_length=32,
        widget=name_input("0s"),
        help_text=_("Of a whole answer, such as 90s or 10m. 0s: none."),
    )
    assume_features = LinesField(
        label=_("Assumed features"),
        required=False,
        widget=lines_input("HTTPRouteRequestMirror"),
        help_text=_("One per line: what its class has, as its manual says, without saying so itself."),
    )
    http_routes = PairsField(
        label=_("HTTPRoutes of yours"),
        required=False,
        widget=lines_input("chat=models"),
        help_text=_("One per line: service=HTTPRoute, whose rules go into that one."),
    )
    pool_picker = forms.CharField(
        label=_("Endpoint picker"),
        required=False,
        max_length=253,
        widget=name_input("{pool}-epp"),
        help_text=_("Its Service; routes then lead to InferencePools. Empty: to Services."),
    )
    pool_picker_port = forms.IntegerField(
        label=_("Port of the endpoint picker"),
        required=False,
        min_value=1,
        max_value=65535,
        widget=forms.NumberInput(attrs={"placeholder": "9002"}),
    )
    pool_failure_mode = forms.ChoiceField(
        label=_("While the picker does not answer"),
        required=False,
        choices=(("FailClose", _("Refuse requests")), ("FailOpen", _("Any pod of the pool will do"))),
    )
    port = forms.IntegerField(
        label=_("Port"),
        required=False,
        min_value=1,
        max_value=65535,
        help_text=_("Of an Envoy beside Slipway. No ports: the one of this installation."),
    )
    admin_port = forms.IntegerField(label=_("Admin port"), required=False, min_value=1, max_value=65535)
    bind = forms.CharField(
        label=_("Bind address"), required=False, max_length=45, widget=name_input("127.0.0.1")
    )
    metrics = forms.ChoiceField(
        label=_("Counted by"), help_text=_("Who counts the requests that each version answers.")
    )
    prometheus_url = forms.CharField(
        label=_("Address of Prometheus"),
        max_length=300,
        widget=name_input("http://prometheus.monitoring:9090"),
    )
    prometheus_deployment_label = forms.CharField(
        label=_("Label of deployments"),
        required=False,
        max_length=253,
        widget=name_input("slipway_io_deployment"),
        help_text=_("Of a series: the pod's label slipway.io/deployment, as scraped."),
    )
    prometheus_labels = PairsField(
        label=_("Labels that must match"),
        required=False,
        widget=lines_input("cluster=west"),
        help_text=_("One per line, where one Prometheus knows several clusters."),
    )
    prometheus_stale_seconds = forms.IntegerField(
        label=_("Stale after (seconds)"),
        required=False,
        widget=forms.NumberInput(attrs={"placeholder": "60"}),
        help_text=_("Four times the scrape interval, or so."),
    )
    prometheus_token = forms.CharField(
        label=_("Bearer token"),
        required=False,
        max_length=10_000,
        widget=forms.PasswordInput(attrs={**PLAIN, "autocomplete": "new-password"}),
        help_text=_("Stored encrypted, never shown again. Empty: the stored one stays."),
    )
    drop_token = forms.BooleanField(label=_("Delete the stored token"), required=False)
    envoy_urls = LinesField(
        label=_("Addresses of the Envoys"),
        widget=lines_input("http://gateway-envoys.infra:15020"),
        help_text=_("One per line: an Envoy, or a headless Service of all."),
    )
    public_url = forms.URLField(
        label=_("Public address"),
        required=False,
        max_length=300,
        assume_scheme="https",
        widget=name_input("https://models.example.org"),
        help_text=_("Under which clients reach it; empty: as its settings say."),
    )

    def __init__(
        self,
        data: Any = None,
        *,
        cluster: Cluster,
        present: Gateway | None,
        typed: Mapping[str, Any] | None = None,
    ) -> None:
        """`typed`: what was filled in so far, not to be judged yet."""
        usual = GatewayKind.ENVOY if abilities_of(cluster.kind).runs_on_host else GatewayKind.GATEWAY_API
        initial = _initial(present) if present else {"kind": usual, "namespace": _namespace_of(cluster)}
        super().__init__(data, initial={**initial, **(typed or {})})
        self.present = present
        self.chosen_kind = str(self["kind"].value())
        metrics: Any = self.fields["metrics"]
        metrics.choices = [
            one
            for one in MetricsKind.choices
            if one[0] != MetricsKind.GATEWAY or self.chosen_kind in COUNTS_ITSELF
        ]
        offered = [value for value, _label in metrics.choices]
        counted_by = str(self["metrics"].value())
        if counted_by not in offered:
            counted_by = self.initial["metrics"] = offered[0]
        keep = {*OF_KIND.get(self.chosen_kind, ()), *OF_METRICS.get(counted_by, ())}
        has_token = present is not None and bool(present.sealed_secrets)
        for name in {*_all(OF_KIND), *_all(OF_METRICS)} - keep | (set() if has_token else {"drop_token"}):
            self.fields.pop(name, None)
        ordered = ["revision", "kind", *OF_KIND.get(self.chosen_kind, ()), "public_url", "metrics"]
        self.order_fields([*ordered, *OF_METRICS.get(counted_by, ())])

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if given.get("pool_picker_port") and not given.get("pool_picker"):
            self.add_error("pool_picker", _("Name the Service of the picker, or leave its port empty."))
        return given

    def wishes(self) -> dict[str, Any]:
        """Return the arguments of `services.set_gateway`."""
        given = dict(self.cleaned_data)
        settings = {name: given[name] for name in OF_KIND[self.chosen_kind] if name in given}
        pool = {POOL[name]: one for name in POOL if (one := settings.pop(name, None))}
        settings = {
            name: one for name, one in settings.items() if one not in ("", None, [], {}, USUAL.get(name))
        }
        if pool.get("picker"):
            settings["inference_pools"] = pool
        prometheus = {PROMETHEUS[name]: one for name in PROMETHEUS if (one := given.get(name))}
        if prometheus:
            settings["prometheus"] = prometheus
        if given.get("envoy_urls"):
            settings["envoy"] = {"urls": given["envoy_urls"]}
        return {
            "kind": self.chosen_kind,
            "settings": settings,
            "metrics": given["metrics"],
            "public_url": given["public_url"],
            "secrets": self._secrets(),
            "expected": given["revision"] if self.present else None,
        }

    def _secrets(self) -> dict[str, str] | None:
        """Return the secrets; None: the stored ones stay."""
        given = self.cleaned_data
        if given["metrics"] != MetricsKind.PROMETHEUS or given.get("drop_token"):
            return {}
        return {TOKEN: token} if (token := given["prometheus_token"].strip()) else None

    def blame(self, error: SlipwayError | ValidationError) -> None:
        """A service's words at the field that they are about."""
        if isinstance(error, Invalid) and "settings" in error.fields:
            told = [self._placed(one) for one in error.fields["settings"]]
            error = Invalid(str(error), fields={**error.fields, "settings": told})
        blame(self, error, {"secrets": "prometheus_token"})

    def _placed(self, sentence: str) -> str:
        """`prometheus: url: ...` is what a field of one name calls `prometheus_url: ...`."""
        setting, colon, rest = sentence.partition(": ")
        if not colon or setting not in DIFFERENT:
            return sentence
        part, _colon, words = rest.partition(": ")
        name = f"{setting}_{part}"
        return f"{name}: {words}" if name in self.fields else f"{DIFFERENT[setting]}: {rest}"


def _all(names: Mapping[str, Iterable[str]]) -> set[str]:
    return {name for some in names.values() for name in some}


def _namespace_of(cluster: Cluster) -> str:
    return str(cluster.settings.get("namespace", ""))


def _initial(row: Gateway) -> dict[str, Any]:
    settings = dict(row.settings)
    pool = settings.pop("inference_pools", None) or {}
    prometheus = settings.pop("prometheus", None) or {}
    found = {name: settings[name] for name in _all(OF_KIND) if name in settings}
    found |= {name: pool[key] for name, key in POOL.items() if key in pool}
    found |= {name: prometheus[key] for name, key in PROMETHEUS.items() if key in prometheus}
    found["envoy_urls"] = (settings.get("envoy") or {}).get("urls", [])
    shown = {name: getattr(row, name) for name in ("kind", "metrics", "public_url", "revision")}
    return found | shown
