"""The schema shows an example of every document, and each one is what the schema says."""

from collections.abc import Iterator
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator

JSON = "application/json"
FREE = {"get /api/v1/plans/schema/"}
"""Answers that are no document of ours: a JSON schema."""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    generated: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return generated


def documents(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, media type object) of every JSON body that is sent or answered."""
    for path, operations in schema["paths"].items():
        for verb, operation in operations.items():
            where = f"{verb} {path}"
            if where in FREE:
                continue
            if JSON in (body := operation.get("requestBody", {}).get("content", {})):
                yield f"{where} request", body[JSON]
            for status, answer in operation["responses"].items():
                if status.startswith("2") and JSON in (content := answer.get("content", {})):
                    yield f"{where} {status}", content[JSON]


def test_every_document_has_an_example(schema: dict[str, Any]) -> None:
    found = dict(documents(schema))
    assert len(found) > 80
    assert [where for where, body in found.items() if not body.get("examples")] == []


def test_every_example_is_what_the_schema_says(schema: dict[str, Any]) -> None:
    faults = []
    for where, body in documents(schema):
        whole = {"components": schema["components"], **body["schema"]}
        for title, example in body.get("examples", {}).items():
            validator = Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
            faults += [
                f"{where} {title}: {list(error.path)} {error.message}"
                for error in validator.iter_errors(example["value"])
            ]
    assert faults == []


def test_every_answer_in_an_example_has_all_its_fields(schema: dict[str, Any]) -> None:
    components = schema["components"]["schemas"]
    for where, body in documents(schema):
        name = body["schema"].get("$ref", "").rpartition("/")[2]
        if not where.endswith("request") and name in components:
            for example in body["examples"].values():
                assert set(example["value"]) == set(components[name]["properties"]), where
