"""The storage class of versions' claims, which many machines read at the same time. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kube.base import Object

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
GIB = 1024**3
SPARE_BYTES = GIB
SHARED: Mapping[str, str] = {
    "efs.csi.aws.com": "ReadWriteMany",
    "fsx.csi.aws.com": "ReadWriteMany",
    "file.csi.azure.com": "ReadWriteMany",
    "azurelustre.csi.azure.com": "ReadWriteMany",
    "filestore.csi.storage.gke.io": "ReadWriteMany",
    "lustre.csi.storage.gke.io": "ReadWriteMany",
    "nfs.csi.k8s.io": "ReadWriteMany",
    "smb.csi.k8s.io": "ReadWriteMany",
    "csi.juicefs.com": "ReadWriteMany",
    "csi.weka.io": "ReadWriteMany",
    "csi.vastdata.com": "ReadWriteMany",
    "csi.trident.netapp.io": "ReadWriteMany",
    "driver.longhorn.io": "ReadWriteMany",
    "spectrumscale.csi.ibm.com": "ReadWriteMany",
    "beegfs.csi.netapp.com": "ReadWriteMany",
    "nasplugin.csi.alibabacloud.com": "ReadWriteMany",
    "cephfs.csi.ceph.com": "ReadWriteMany",
}
"""Provisioners whose volumes many machines mount, as their documentation says; Rook's have a prefix."""
WITHOUT_LINKS = frozenset({"file.csi.azure.com", "smb.csi.k8s.io"})
"""On which a version's directory holds copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStorage:
    """A storage class as claims of versions use it."""

    name: str
    """Empty: the cluster's default."""
    access_modes: tuple[str, ...]
    copies: int = 1
    reason: str = ""

    def gib_for(self, size_bytes: int) -> int:
        """Return the size to request for so many bytes, with room for the file system itself."""
        return math.ceil((size_bytes * self.copies * 1.05 + SPARE_BYTES) / GIB)


def provisioner_of(storage_class: Object) -> str:
    return str(storage_class.get("provisioner", ""))


def is_default(storage_class: Object) -> bool:
    annotations: dict[str, str] = storage_class["metadata"].get("annotations") or {}
    return annotations.get(DEFAULT_CLASS) == "true"


def shared_mode(provisioner: str) -> str:
    """Return an access mode that pods of several machines share; empty: none is known."""
    return SHARED.get(provisioner) or next(
        (mode for name, mode in SHARED.items() if provisioner.endswith(f".{name}")), ""
    )


def pick(
    classes: Sequence[Object], *, wanted: str = "", access_mode: str = ""
) -> tuple[ClaimStorage | None, str]:
    """The class that the settings name, else the default if it is shared, else the first that is.

    None with the reason where there is none. `access_mode`: what the settings say it can do.
    """
    by_name = {one["metadata"]["name"]: one for one in classes}
    if wanted:
        provisioner = provisioner_of(by_name.get(wanted, {"metadata": {}}))
        mode = access_mode or shared_mode(provisioner)
        if wanted not in by_name and classes:
            there_are = ", ".join(sorted(by_name))
            return None, f"There is no storage class {wanted}; there are {there_are}."
        if not mode:
            return None, (
                f"Whether many machines can mount volumes of the storage class {wanted} "
                f"({provisioner or 'not readable'}) is not known: set claim_access_mode."
            )
        return _storage(wanted, mode, provisioner, "the cluster's settings name it"), ""
    ordered = sorted(classes, key=lambda one: (not is_default(one), one["metadata"]["name"]))
    for one in ordered:
        provisioner = provisioner_of(one)
        if mode := shared_mode(provisioner):
            why = "the default" if is_default(one) else f"volumes of {provisioner} can be shared"
            return _storage(one["metadata"]["name"], access_mode or mode, provisioner, why), ""
    if not classes:
        return None, "The cluster has no storage class, or does not let it be read."
    return None, (
        f"None of its storage classes ({', '.join(sorted(by_name))}) is known to be shared by machines: name "
        "one in storage_class and claim_access_mode."
    )


def _storage(name: str, mode: str, provisioner: str, reason: str) -> ClaimStorage:
    # A volume that many may only read is written by one before.
    modes = ("ReadWriteOnce", "ReadOnlyMany") if mode == "ReadOnlyMany" else (mode,)
    copies = 2 if provisioner in WITHOUT_LINKS else 1
    return ClaimStorage(name=name, access_modes=modes, copies=copies, reason=reason)
