"""Bodies of requests as the API server reads and refuses them."""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from kube.fake.defaults import quantity
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import (
    RequestRefused,
    bad_request,
    invalid_options,
    not_allowed,
    required,
    too_long,
    unsupported,
    unsupported_media,
    wrong_value,
)
from kube.fake.schema import FieldSchema
from kube.fake.typed import decoding_fault, unknown_fields
from kube.fake.wire import ApiRequest

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
MOST_BYTES = 3 * 1024 * 1024
MOST_OPERATIONS = 10_000
_QUANTITY_FAULT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class _DuplicateKeys(yaml.SafeLoader):
    """Remembers what a map says twice."""

    repeated: list[str]


def _construct(loader: _DuplicateKeys, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in result:
            loader.repeated.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
        result[key] = loader.construct_object(value_node, deep=True)
    return result


_DuplicateKeys.add_constructor("tag:yaml.org,2002:map", _construct)
_DuplicateKeys.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)


def yaml_body(body: bytes) -> tuple[Any, list[str]]:
    """And which keys it has twice. Raises yaml.YAMLError."""
    loader = _DuplicateKeys(body)
    loader.repeated = []
    try:
        return loader.get_single_data(), loader.repeated
    finally:
        loader.dispose()


def check_options(request: ApiRequest, options: str) -> None:
    """Raises RequestRefused for query parameters that cannot be meant."""
    query = request.query
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > 128:
        raise invalid_options(options, too_long("fieldManager", 128))
    if options == "PatchOptions":
        is_apply = request.content_type == APPLY_PATCH
        if is_apply and not manager:
            raise invalid_options(options, required("fieldManager", "is required for apply patch"))
        if not is_apply and query.get("force") == "true":
            raise invalid_options(options, not_allowed("force", "may not be specified for non-apply patch"))
    if (dry := query.get("dryRun", "All")) != "All":
        raise invalid_options(options, unsupported("dryRun", json.dumps([dry]), ["All"]))
    validation = query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        cause = unsupported("fieldValidation", json.dumps(validation), ["", "Ignore", "Strict", "Warn"])
        raise invalid_options(options, cause)


def check_delete_options(options: Mapping[str, Any], dry_runs: list[str]) -> None:
    policy, orphans = options.get("propagationPolicy"), options.get("orphanDependents")
    if policy is not None and orphans is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", wrong_value("propagationPolicy", json.dumps(policy), why))
    if policy not in (None, "Foreground", "Background", "Orphan"):
        supported = ["Foreground", "Background", "Orphan", "nil"]
        raise invalid_options(
            "DeleteOptions", unsupported("propagationPolicy", json.dumps(policy), supported)
        )
    if any(one != "All" for one in dry_runs):
        raise invalid_options("DeleteOptions", unsupported("dryRun", json.dumps(dry_runs), ["All"]))


def check_size(request: ApiRequest) -> None:
    if len(request.body) > MOST_BYTES:
        raise too_large(f"limit is {MOST_BYTES}")


def too_large(why: str) -> RequestRefused:
    return RequestRefused(413, "RequestEntityTooLarge", f"Request entity too large: {why}", None)


def object_body(request: ApiRequest, kind: ObjectKind, warnings: list[str]) -> dict[str, Any]:
    """Return the object of a POST or PUT; unknown fields are warned of or refused. Raises RequestRefused."""
    if request.content_type not in ("", "application/json", "application/yaml"):
        accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        if kind.is_custom:
            accepted = "application/json, application/yaml"
        said = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media(said + accepted, is_bare=False)
    try:
        item = (
            yaml_body(request.body)[0]
            if request.content_type == "application/yaml"
            else json.loads(request.body)
        )
        if not isinstance(item, dict):
            raise ValueError("not an object")
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
            f"json parse error: {error} ({request.body[:40].decode(errors='replace')})"
        ) from error
    _check_kind(item, kind)
    check_fields(request, kind, item, warnings)
    return item


def _check_kind(item: Mapping[str, Any], kind: ObjectKind) -> None:
    found, version = item.get("kind"), item.get("apiVersion")
    if kind.is_custom and not (found and version):
        missing = "Kind" if not found else "apiVersion"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object '{missing}' "
            f"is missing"
        )
    served = {kind.version} | kind.also_served
    if version and version not in {f"{kind.group}/{one}" if kind.group else one for one in served}:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if found and found != kind.kind:
        inner = kind.group.partition(".")[0] or "core"
        raise bad_request(
            f'{found} in version "{kind.version}" cannot be handled as a {kind.kind}: converting '
            f"({kind.version}.{found}) to ({inner}.{kind.kind}): unknown conversion"
        )


def check_fields(request: ApiRequest, kind: ObjectKind, item: dict[str, Any], warnings: list[str]) -> None:
    handled = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    if not kind.is_custom:
        if fault := _quantity_fault(item, kind.shape) or decoding_fault(item, kind.shape, kind.kind):
            raise bad_request(f"{handled}: {fault}")
        if kind.kind == "Secret" and (fault := _base64_fault(item)):
            raise bad_request(f"{handled}: {fault}")
    paths = list(unknown_fields(item, kind.shape))
    unknown = [f'unknown field "{path}"' for path in (sorted(paths) if kind.is_custom else paths)]
    if unknown and request.query.get("fieldValidation") == "Strict":
        raise bad_request(f"{handled}: strict decoding error: {', '.join(unknown)}")
    if request.query.get("fieldValidation") != "Ignore":
        warnings += unknown


def _quantity_fault(value: Any, shape: FieldSchema) -> str:
    if shape.kind == "quantity":
        return "" if quantity(value) is not None else _QUANTITY_FAULT
    inner: list[tuple[Any, FieldSchema | None]] = []
    if isinstance(value, dict):
        inner = [(one, shape.child(key)) for key, one in value.items()]
    elif isinstance(value, list):
        inner = [(one, shape.item) for one in value]
    return next((found for one, child in inner if child and (found := _quantity_fault(one, child))), "")


def _base64_fault(item: Mapping[str, Any]) -> str:
    if not isinstance(item.get("data"), dict):
        return ""
    for value in item["data"].values():
        if found := re.search(r"[^A-Za-z0-9+/=\r\n]", str(value)):
            return f"illegal base64 data at input byte {found.start()}"
    return ""


def apply_body(request: ApiRequest, warnings: list[str]) -> dict[str, Any]:
    """Return the object of a server-side apply. Raises RequestRefused."""
    try:
        item, repeated = yaml_body(request.body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {error}") from error
    if repeated:
        said = "yaml: unmarshal errors:\n  " + "\n  ".join(repeated)
        if request.query.get("fieldValidation") == "Strict":
            raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {said}")
        warnings += repeated
    return item if isinstance(item, dict) else {}


def patch_body(request: ApiRequest) -> Any:
    """Return the body of the other patches. Raises RequestRefused."""
    try:
        patch = json.loads(request.body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if request.content_type != JSON_PATCH:
        return patch
    if not isinstance(patch, list):
        word = "object" if isinstance(patch, dict) else "string"
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {word} into Go value of type "
            f"[]handlers.jsonPatchOp"
        )
    if len(patch) > MOST_OPERATIONS:
        raise too_large(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        )
    return patch
