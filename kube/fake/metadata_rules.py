"""Rules of the API server for the metadata of any object."""

import json
import re
from collections.abc import Mapping
from typing import Any

from kube.fake.causes import StatusCause
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import immutable, not_allowed, required, too_long, wrong_value

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
MOST_ANNOTATION_BYTES = 256 * 1024

NOT_A_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NOT_A_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NOT_A_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NOT_A_QUALIFIED_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NEITHER_STANDARD = "name is neither a standard finalizer name nor is it fully qualified"
STANDARD_FINALIZERS = {"foregroundDeletion", "orphan", "kubernetes"}
SERVER_MADE = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)


def name_faults(kind: ObjectKind, name: str, place: str = "metadata.name") -> list[StatusCause]:
    if not name:
        return [required(place, "name or generateName is required")]
    is_label = kind.short == "DNS label"
    most = 63 if is_label else 253
    faults = []
    if len(name) > most:
        faults.append(wrong_value(place, json.dumps(name), f"must be no more than {most} characters"))
    if not (LABEL if is_label else SUBDOMAIN).fullmatch(name):
        faults.append(wrong_value(place, json.dumps(name), NOT_A_LABEL if is_label else NOT_A_SUBDOMAIN))
    return faults


def label_faults(labels: Mapping[str, Any], place: str) -> list[StatusCause]:
    faults = []
    for key, value in labels.items():
        faults += key_faults(key, place)
        if len(str(value)) > 63:
            faults.append(wrong_value(place, json.dumps(value), "must be no more than 63 bytes"))
        if not LABEL_VALUE.fullmatch(str(value)):
            faults.append(wrong_value(place, json.dumps(value), NOT_A_LABEL_VALUE))
    return faults


def key_faults(key: str, place: str) -> list[StatusCause]:
    prefix, slash, name = key.rpartition("/")
    if slash and not SUBDOMAIN.fullmatch(prefix):
        return [wrong_value(place, json.dumps(key), f"prefix part {NOT_A_SUBDOMAIN}")]
    if not QUALIFIED.fullmatch(name):
        return [wrong_value(place, json.dumps(key), NOT_A_QUALIFIED_NAME)]
    if len(name) > 63:
        return [wrong_value(place, json.dumps(key), "name part must be no more than 63 bytes")]
    return []


def metadata_faults(kind: ObjectKind, metadata: Mapping[str, Any]) -> list[StatusCause]:
    faults = name_faults(kind, metadata.get("name", ""))
    faults += label_faults(metadata.get("labels") or {}, "metadata.labels")
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        faults += key_faults(key.lower(), "metadata.annotations")
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > MOST_ANNOTATION_BYTES:
        faults.append(too_long("metadata.annotations", MOST_ANNOTATION_BYTES))
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            place = f"metadata.finalizers[{index}]"
            faults.append(wrong_value(place, json.dumps(finalizer), NEITHER_STANDARD))
    return faults


def metadata_update_faults(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[StatusCause]:
    """Each twice: the API server looks twice."""
    faults = []
    if new.get("uid") not in (None, "", old["uid"]):
        faults.append(immutable("metadata.uid", json.dumps(new["uid"])))
    if old.get("deletionTimestamp"):
        added = [one for one in new.get("finalizers") or () if one not in (old.get("finalizers") or ())]
        if added:
            listed = ", ".join(json.dumps(one) for one in added)
            why = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            faults.append(not_allowed("metadata.finalizers", why))
    return faults * 2
