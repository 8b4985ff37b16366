"""What OpenAPI says of the paths is valid, and true of every path."""

import re
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator
from openapi_spec_validator import OpenAPIV31SpecValidator

from common.api.schema import with_exact_alternatives

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return SchemaGenerator().get_schema(request=None, public=True)


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]


def nodes(value: Any) -> list[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] * isinstance(value, dict) + [node for one in inner for node in nodes(one)]


@pytest.mark.timeout(400)
def test_the_document_is_valid_openapi(document) -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_the_parameters_of_a_path_are_those_in_its_address(document) -> None:
    for path, method, operation in operations(document):
        declared = [one["name"] for one in operation.get("parameters", []) if one["in"] == "path"]
        assert sorted(declared) == sorted(re.findall(r"{(\w+)}", path)), f"{method} {path}"


def test_every_operation_declares_its_refusals(document) -> None:
    for path, method, operation in operations(document):
        expected = {"400", "401", "403"} | ({"404"} if "{" in path else set())
        assert expected <= operation["responses"].keys(), f"{method} {path}"


def test_what_is_one_of_several_is_never_two_of_them(document) -> None:
    for alternatives in (node["oneOf"] for node in nodes(document) if isinstance(node.get("oneOf"), list)):
        assert {} not in alternatives
        kinds = [one["type"] for one in alternatives if "type" in one]
        assert len(kinds) == len(set(kinds)), alternatives


def test_alternatives_that_overlap_are_any_of_them() -> None:
    email = [{"type": "string", "format": "email"}, {"type": "string", "maxLength": 0}]
    rope = [{"$ref": "#/components/schemas/Rope"}, {"type": "null"}]
    given = {
        "email": {"oneOf": email},
        "before": {"oneOf": [{}, {"type": "null"}]},
        "rope": [{"oneOf": rope}],
    }
    assert with_exact_alternatives(given) == {
        "email": {"anyOf": email},
        "before": {},
        "rope": [{"oneOf": rope}],
    }
