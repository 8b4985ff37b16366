"""The environment and volumes of a container of the fake cluster."""

import base64
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kube.base import KubernetesClient, Object
from kube.errors import NotFound
from kube.fake.commands import mapped
from kube.resources import CONFIG_MAPS, SECRETS, Ref

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a container listens on is its pod's address here


class MissingReference(Exception):
    """Something that the container needs is missing, in a kubelet's words."""


class Surroundings:
    """Volumes and environment of the pods of one namespace and one machine, whose disk is `root`."""

    def __init__(self, client: KubernetesClient, namespace: str, root: Path) -> None:
        self._client = client
        self._namespace = namespace
        self._root = root

    def environment(
        self, spec: Object, *, told: Mapping[str, str], mounts: Mapping[str, str], address: str
    ) -> dict[str, str]:
        """`spec`: of the container. `told`: what it may ask of its pod, by field path. Raises
        MissingReference.
        """
        found: dict[str, str] = {}
        for source in spec.get("envFrom") or ():
            prefix = source.get("prefix", "")
            of = "configMapRef" if "configMapRef" in source else "secretRef"
            values = self._values(of, source[of])
            found |= {f"{prefix}{key}": value for key, value in values.items()}
        for one in spec.get("env") or ():
            source = one.get("valueFrom") or {}
            if "fieldRef" in source:
                found[one["name"]] = told[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source or "configMapKeyRef" in source:
                of = next(iter(source))
                found[one["name"]] = self._values(of, source[of] | {"optional": True}).get(
                    source[of]["key"], ""
                )
            else:
                found[one["name"]] = one.get("value", "")
        return {
            key: address if value == EVERYWHERE else mapped(value, mounts) for key, value in found.items()
        }

    def mounts(self, spec: Object, pod: Object, directory: Path) -> dict[str, str]:
        """Return the path on this computer of each mount path. `directory`: of the pod."""
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        found = {}
        for mount in spec.get("volumeMounts") or ():
            volume = volumes[mount["name"]]
            if "hostPath" in volume:
                place = self._root / "disk" / volume["hostPath"]["path"].lstrip("/")
            elif "persistentVolumeClaim" in volume:
                place = self._root.parent / "claims" / volume["persistentVolumeClaim"]["claimName"]
            else:
                place = directory / "volumes" / mount["name"]
            place = place / mount.get("subPath", "")
            place.mkdir(parents=True, exist_ok=True)
            found[mount["mountPath"]] = str(place)
        return found

    def write_volumes(self, pod: Object, directory: Path) -> None:
        """The volumes that are Secrets or ConfigMaps, one file a key. What is missing leaves the files of
        before.
        """
        for volume in pod["spec"].get("volumes") or ():
            if "secret" in volume:
                of, reference = "secret", {"name": volume["secret"]["secretName"]}
            elif "configMap" in volume:
                of, reference = "configMap", {"name": volume["configMap"]["name"]}
            else:
                continue
            place = directory / "volumes" / volume["name"]
            place.mkdir(parents=True, exist_ok=True)
            with suppress(MissingReference):
                for key, content in self._values(of, reference).items():
                    fresh = place / f".{key}"
                    fresh.write_text(content)
                    fresh.replace(place / key)

    def _values(self, of: str, reference: Object) -> dict[str, str]:
        is_secret = of.startswith("secret")
        ref = Ref(SECRETS if is_secret else CONFIG_MAPS, reference["name"], self._namespace)
        try:
            data = self._client.get(ref).get("data") or {}
        except NotFound:
            if reference.get("optional"):
                return {}
            raise MissingReference(
                f'{"secret" if is_secret else "configmap"} "{ref.name}" not found'
            ) from None
        return {key: base64.b64decode(one).decode() if is_secret else one for key, one in data.items()}
