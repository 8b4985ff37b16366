"""Settings of a Kubernetes cluster in its row."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from clusters.backends.base import NAME, SECRET_NAME, Misconfigured
from images.states import Acceleration

RELAY = "slipway-relay"
RELAY_PORT = 8080
BY_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")
_LISTS = ("namespaces", "image_pull_secrets", "env_secrets", "patch_allows")
_ALLOWANCES = ("host_path", "host_namespaces", "security_context", "service_account")
_ACCESS_MODES = ("", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")


class FileDeliveryKind(StrEnum):
    """The way in which the files of a version are delivered to its workers."""

    AUTO = "auto"
    """One of those below, by what the cluster has."""
    CLAIM = "claim"
    """A volume claim that every machine can read, on which the store's files lie."""
    NODE_CACHE = "node_cache"
    """A directory of each machine, which an init container of ours fills and verifies."""
    FILLED_CLAIM = "filled_claim"
    """A volume claim per version, which a Job of ours fills once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """The row's `settings`; its secrets hold the kubeconfig."""

    namespace: str = "slipway"
    """Of the workers that name none of their own."""
    namespaces: tuple[str, ...] = ()
    """Others that deployments may name."""
    context: str = ""
    """Of the kubeconfig; empty: its current one."""
    model_files: FileDeliveryKind = FileDeliveryKind.AUTO
    model_claim: str = "slipway-models"
    """Name of the volume claim, with `claim`."""
    node_cache: str = "/var/lib/slipway/models"
    """The directory, with `node_cache`."""
    node_cache_gib: int = 0
    """How much it holds at most; beyond that, and where the disk is full, versions go that no pod of the
    machine has used for an hour. 0: as much as the disk."""
    store_url: str = ""
    """Where pods reach the control plane, https://...; needed by `node_cache` and `filled_claim`."""
    store_secret: str = "slipway-store"  # noqa: S105 - a name
    """Name of the secret that has the token for it, under the key `token`."""
    report_url: str = ""
    """Where workers in pods send their heartbeats, https://...; empty: to `store_url`, and nowhere without
    either."""
    storage_class: str = ""
    """Of the claims, with `filled_claim`; empty: the default, or the first one that is shared."""
    claim_access_mode: str = ""
    """What volumes of it can do, where that is not known: ReadWriteMany, ReadOnlyMany, ReadWriteOnce."""
    jobs_image: str = ""
    """By digest: what jobs on machines run in, the worker's image say. Without one there are none."""
    jobs_namespace: str = ""
    """Of those jobs: one that lets privileged pods run, where machines are to be repaired. Empty: that of the
    workers."""
    relay_image: str = ""
    """Image by digest of the relay that hears the workers; empty: they report by themselves."""
    image_loading: str = ""
    """How machines get images that no label says it of: `images.states.Acceleration`."""
    priority_class: str = ""
    runtime_class: str = ""
    service_account: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    env_secrets: tuple[str, ...] = ()
    """Names of secrets that services may take variables from."""
    patch_allows: tuple[str, ...] = ()
    """What patches of pods may do besides: `template_patch.ALLOWANCES`."""

    def __post_init__(self) -> None:
        for key in (
            "namespace",
            "model_claim",
            "store_secret",
            "storage_class",
            "jobs_namespace",
            "priority_class",
            "runtime_class",
            "service_account",
        ):
            value = getattr(self, key)
            pattern = NAME if key.endswith("namespace") else SECRET_NAME
            if value and not pattern.fullmatch(value):
                raise Misconfigured(f"{key}: {value!r} cannot be a name in Kubernetes.")
        for name in self.namespaces:
            if not NAME.fullmatch(name):
                raise Misconfigured(f"namespaces: {name!r} cannot name a namespace.")
        for key in ("image_pull_secrets", "env_secrets"):
            for name in getattr(self, key):
                if not SECRET_NAME.fullmatch(name):
                    raise Misconfigured(f"{key}: {name!r} cannot name a secret.")
        if unknown := sorted({*self.patch_allows} - {*_ALLOWANCES}):
            known = ", ".join(_ALLOWANCES)
            raise Misconfigured(f"patch_allows: {', '.join(unknown)} is unknown; there are {known}.")
        if not self.namespace:
            raise Misconfigured("namespace: name the one in which workers run.")
        if not self.node_cache.startswith("/") or ".." in self.node_cache.split("/"):
            raise Misconfigured("node_cache: give the absolute path of a directory of the machines.")
        for key in ("store_url", "report_url"):
            value = getattr(self, key)
            if value and not value.startswith(("https://", "http://")):
                raise Misconfigured(f"{key}: give the address at which pods reach Slipway, https://...")
        if self.relay_image and not BY_DIGEST.fullmatch(self.relay_image):
            raise Misconfigured("relay_image: name it by digest, repository@sha256:...")
        if self.relay_image and not self.control_plane:
            raise Misconfigured("relay_image: say in report_url where the relay reaches Slipway.")

        if self.image_loading not in Acceleration.values:
            known = ", ".join(filter(None, Acceleration.values))
            raise Misconfigured(f"image_loading: one of {known}, or nothing.")
        self._check_files()

    def _check_files(self) -> None:
        if self.claim_access_mode not in _ACCESS_MODES:
            raise Misconfigured(f"claim_access_mode: one of {', '.join(_ACCESS_MODES[1:])}.")

    @property
    def all_namespaces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.namespace, *self.namespaces)))

    @property
    def control_plane(self) -> str:
        """Address of the control plane for reports; empty: nobody sends any."""
        return (self.report_url or self.store_url).rstrip("/")

    @property
    def reports_to(self) -> str:
        """Address to which workers send heartbeats; empty: they send none."""
        return f"http://{RELAY}.{self.namespace}.svc:{RELAY_PORT}" if self.relay_image else self.control_plane

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
            given["model_files"] = FileDeliveryKind(given.get("model_files", FileDeliveryKind.AUTO))
        except ValueError:
            raise Misconfigured(f"model_files: one of {', '.join(FileDeliveryKind)}.") from None
        for key in _LISTS:
            names = given.get(key, ())
            if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
                raise Misconfigured(f"{key}: a list of names.")
            given[key] = tuple(names)
        gib = given.get("node_cache_gib", 0)
        if isinstance(gib, str) and gib.isdecimal():
            gib = given["node_cache_gib"] = int(gib)  # from a command line
        if not isinstance(gib, int) or isinstance(gib, bool) or gib < 0:
            raise Misconfigured("node_cache_gib: a number of GiB, or 0.")
        for key, value in given.items():
            if key not in (*_LISTS, "node_cache_gib") and not isinstance(value, str):
                raise Misconfigured(f"{key}: must be a text.")
        return cls(**given)


def fetches_from_us(model_files: str, store_url: str) -> bool:
    """Whether pods of a cluster with these settings may come to ask the control plane for files."""
    ways = (FileDeliveryKind.AUTO, FileDeliveryKind.NODE_CACHE, FileDeliveryKind.FILLED_CLAIM)
    return bool(store_url) and model_files in ways
