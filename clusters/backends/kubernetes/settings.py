"""What a cluster of the kind Kubernetes says of itself in its row."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from clusters.backends.base import NAME, SECRET_NAME, Misconfigured

_LISTS = ("namespaces", "image_pull_secrets")


class ModelFiles(StrEnum):
    """How the files of a version come to its workers."""

    CLAIM = "claim"
    """A volume claim that every machine can read, on which the store's files lie."""
    NODE_CACHE = "node_cache"
    """A directory of each machine, which an init container of ours fills and verifies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """The row's `settings`; its secrets hold the kubeconfig."""

    namespace: str = "slipway"
    """Of the workers that name none of their own."""
    namespaces: tuple[str, ...] = ()
    """Others that deployments may name."""
    context: str = ""
    """Of the kubeconfig; empty: its current one."""
    model_files: ModelFiles = ModelFiles.NODE_CACHE
    model_claim: str = "slipway-models"
    """Name of the volume claim, with `claim`."""
    node_cache: str = "/var/lib/slipway/models"
    """The directory, with `node_cache`."""
    node_cache_gib: int = 0
    """How much it holds at most; beyond that, and where the disk is full, versions go that no pod of the
    machine has used for an hour. 0: as much as the disk."""
    store_url: str = ""
    """Where pods reach the control plane, https://...; needed by `node_cache`."""
    store_secret: str = "slipway-store"  # noqa: S105 - a name
    """Name of the secret that has the token for it, under the key `token`."""
    report_url: str = ""
    """Where workers in pods send their heartbeats, https://...; empty: to `store_url`, and nowhere without
    either."""
    priority_class: str = ""
    runtime_class: str = ""
    service_account: str = ""
    image_pull_secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in (
            "namespace",
            "model_claim",
            "store_secret",
            "priority_class",
            "runtime_class",
            "service_account",
        ):
            value = getattr(self, key)
            pattern = NAME if key == "namespace" else SECRET_NAME
            if value and not pattern.fullmatch(value):
                raise Misconfigured(f"{key}: {value!r} cannot be a name in Kubernetes.")
        for name in self.namespaces:
            if not NAME.fullmatch(name):
                raise Misconfigured(f"namespaces: {name!r} cannot name a namespace.")
        for name in self.image_pull_secrets:
            if not SECRET_NAME.fullmatch(name):
                raise Misconfigured(f"image_pull_secrets: {name!r} cannot name a secret.")
        if not self.namespace:
            raise Misconfigured("namespace: name the one in which workers run.")
        if not self.node_cache.startswith("/") or ".." in self.node_cache.split("/"):
            raise Misconfigured("node_cache: give the absolute path of a directory of the machines.")
        for key in ("store_url", "report_url"):
            value = getattr(self, key)
            if value and not value.startswith(("https://", "http://")):
                raise Misconfigured(f"{key}: give the address at which pods reach Slipway, https://...")

    @property
    def all_namespaces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.namespace, *self.namespaces)))

    @property
    def reports_to(self) -> str:
        """Address of the control plane for heartbeats; empty: workers send none."""
        return (self.report_url or self.store_url).rstrip("/")

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Raises Misconfigured naming the setting that is wrong or not known."""
        known = {one.name for one in fields(cls)}
        if unknown := sorted(settings.keys() - known):
            there_are = ", ".join(sorted(known))
            raise Misconfigured(
                f"{', '.join(unknown)}: no such setting of a Kubernetes cluster. There are {there_are}."
            )
        given = dict(settings)
        try:
            given["model_files"] = ModelFiles(given.get("model_files", ModelFiles.NODE_CACHE))
        except ValueError:
            raise Misconfigured(f"model_files: one of {', '.join(ModelFiles)}.") from None
        for key in _LISTS:
            names = given.get(key, ())
            if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
                raise Misconfigured(f"{key}: a list of names.")
            given[key] = tuple(names)
        gib = given.get("node_cache_gib", 0)
        if not isinstance(gib, int) or isinstance(gib, bool) or gib < 0:
            raise Misconfigured("node_cache_gib: a number of GiB, or 0.")
        for key, value in given.items():
            if key not in (*_LISTS, "node_cache_gib") and not isinstance(value, str):
                raise Misconfigured(f"{key}: must be a text.")
        return cls(**given)
