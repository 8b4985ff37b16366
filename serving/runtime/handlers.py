"""Handlers as requests reach them: arguments by type hints, answers by the return's, and their OpenAPI."""

import dataclasses
import inspect
import json
from collections.abc import Mapping
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic_core import to_json

from serving.runtime.app import App, AppRoute
from serving.runtime.errors import PROBLEM_TYPE, AppError, Problem
from serving.runtime.handler_request import Request, Response

JSON = "application/json"


class RouteHandler:
    """The function of a route with its types. Raises AppError for hints that nothing can be read by."""

    def __init__(self, route: AppRoute) -> None:
        self.route = route
        self.function = route.handler
        self.is_async = inspect.iscoroutinefunction(self.function) or inspect.isasyncgenfunction(
            self.function
        )
        signature = inspect.signature(self.function)
        where = f"{route.method} {route.path}: {self.function.__qualname__}"
        try:
            hints = get_type_hints(self.function, include_extras=True)
        except NameError as error:
            raise AppError(f"{where}: {error}") from None
        in_path = {part[1:-1] for part in route.path.split("/") if part.startswith("{")}
        self.body_name = ""
        self.request_type: type[Request] | None = None
        self.body: TypeAdapter[Any] | None = None
        self.takes_progress = "progress" in signature.parameters and route.kind == "job"
        self.inputs: dict[str, tuple[TypeAdapter[Any], str, inspect.Parameter]] = {}
        if missing := sorted(in_path - signature.parameters.keys()):
            raise AppError(f"{where} has no parameter {', '.join(missing)}, which its path names")
        for name, parameter in signature.parameters.items():
            hint = hints.get(name)
            if name == "progress" and self.takes_progress:
                continue
            if name in in_path:
                self.inputs[name] = (_adapter(hint or str, where), "path", parameter)
            elif not self.body_name and (hint is None or _is_body(hint)):
                self.body_name = name
                if hint is None or (isinstance(hint, type) and issubclass(hint, Request)):
                    self.request_type = hint or Request
                elif hint is not bytes:
                    self.body = _adapter(hint, where)
            else:
                self.inputs[name] = (_adapter(hint or str, where), "query", parameter)
        returned = hints.get("return")
        is_typed = returned is not None and returned is not type(None) and route.kind != "stream"
        raw = (bytes, str, Response)
        self.returned = _adapter(returned, where) if is_typed and returned not in raw else None

    def arguments(self, request: Request) -> dict[str, Any]:
        """Return the function's arguments. Raises Problem: 400, 415 or 422 with the fields that are wrong."""
        values: dict[str, Any] = {}
        faults: list[dict[str, Any]] = []
        for name, (adapter, place, parameter) in self.inputs.items():
            given = (request.path_params if place == "path" else request.query).get(name)
            if given is None and parameter.default is not inspect.Parameter.empty:
                continue
            try:
                values[name] = (
                    adapter.validate_python(given) if given is None else adapter.validate_strings(given)
                )
            except ValidationError as error:
                faults += _faults(error, name)
        if self.body_name and not faults:
            try:
                values[self.body_name] = self._body(request)
            except ValidationError as error:
                faults += _faults(error, "")
        if faults:
            raise Problem(422, "Invalid request", "Some fields are not as they must be.", errors=faults)
        return values

    def _body(self, request: Request) -> Any:
        if self.request_type is not None:
            _check_narrowed(self.request_type, request)
            if self.request_type is Request:
                return request
            return self.request_type(**vars(request))
        if self.body is None:
            return request.body
        if request.is_form:
            return self.body.validate_python(request.form())
        if not request.body and request.method == "GET":
            return self.body.validate_python(dict(request.query))
        return self.body.validate_json(request.body)

    def answer(self, value: Any) -> Response:
        """Raises Problem (500) when it is not what the return's hint says."""
        if isinstance(value, Response):
            return value
        if self.returned is not None:
            try:
                checked = self.returned.validate_python(value, from_attributes=True)
                return Response(self.returned.dump_json(checked, by_alias=True), media_type=JSON)
            except ValidationError as error:
                names = "; ".join(f"{one['field']}: {one['detail']}" for one in _faults(error, ""))
                raise Problem(
                    500, "Wrong answer", f"The handler's answer is not what it promises: {names}"
                ) from None
        if value is None:
            return Response(b"", 204)
        if isinstance(value, bytes | bytearray | memoryview):
            return Response(bytes(value), media_type=self.route.media_type or "application/octet-stream")
        if isinstance(value, str):
            return Response(value, media_type=self.route.media_type or "text/plain; charset=utf-8")
        try:
            return Response(to_json(value, fallback=_plain), media_type=JSON)
        except (ValueError, TypeError) as error:
            raise Problem(500, "Wrong answer", f"The handler's answer cannot become JSON: {error}") from None

    def piece(self, value: Any) -> bytes:
        """Write a piece of a stream: an event, or as it is where the route says which type it has."""
        if self.route.media_type:
            return value.encode() if isinstance(value, str) else bytes(value)
        text = value if isinstance(value, str) else to_json(value, fallback=_plain).decode()
        return b"".join(b"data: " + line.encode() + b"\n" for line in text.split("\n")) + b"\n"

    def _example(self) -> dict[str, Any]:
        """Return the warm-up body as the example of a good request; smoke tests send it, too."""
        value = self.route.warm_up_value()
        return {} if value is None or isinstance(value, bytes) else {"example": value}

    def operation(self, schemas: dict[str, Any]) -> dict[str, Any]:
        """Its part of the OpenAPI document; named schemas are added to `schemas`."""
        words = inspect.getdoc(self.function) or ""
        operation: dict[str, Any] = {
            "operationId": self.function.__name__,
            "summary": words.partition("\n")[0],
        }
        operation["parameters"] = [
            {
                "name": name,
                "in": place,
                "required": parameter.default is inspect.Parameter.empty,
                "schema": _schema(adapter, schemas, "validation"),
            }
            for name, (adapter, place, parameter) in self.inputs.items()
        ]
        if self.body is not None and self.route.method != "GET":
            content = {JSON: {"schema": _schema(self.body, schemas, "validation")} | self._example()}
            operation["requestBody"] = {"required": True, "content": content}
        elif self.body_name and self.route.method != "GET":
            types = self.request_type.content_types if self.request_type else ()
            operation["requestBody"] = {"content": {one: {} for one in types or ("*/*",)}}
        if not self.body and (example := self._example()):
            operation["requestBody"] = {"content": {JSON: example}}
        if self.route.kind == "stream":
            answer: dict[str, Any] = {self.route.media_type or "text/event-stream": {}}
        else:
            answer = (
                {JSON: {"schema": _schema(self.returned, schemas, "serialization")}} if self.returned else {}
            )
        status = "202" if self.route.kind == "job" else "200"
        ok: dict[str, Any] = {"description": "Accepted" if status == "202" else "OK"}
        if answer and status == "200":
            ok["content"] = answer
        problem = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        operation["responses"] = {status: ok, "default": {"description": "Problem", "content": problem}}
        return operation


def openapi(app: App, handlers: list[RouteHandler], title: str) -> dict[str, Any]:
    """The service's OpenAPI 3.1 document."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, Any] = {}
    for handler in handlers:
        if handler.route.kind == "control":
            continue
        operation = handler.operation(schemas)
        paths.setdefault(handler.route.path, {})[handler.route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": app.title or title, "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


_PROBLEM = {
    "type": "object",
    "required": ["title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


def _adapter(hint: Any, where: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
        raise AppError(f"{where}: {str(error).splitlines()[0]}") from None


def _is_body(hint: Any) -> bool:
    """Whether the parameter is the body: what is more than one text can say."""
    if hint is bytes or hint is dict or hint is list:
        return True
    if not isinstance(hint, type):
        return getattr(hint, "__origin__", None) in (dict, list, tuple, set)
    return (
        issubclass(hint, Request | dict | list)
        or hasattr(hint, "model_fields")
        or hasattr(hint, "__struct_fields__")
        or dataclasses.is_dataclass(hint)
        or hasattr(hint, "__total__")
    )


def _check_narrowed(kind: type[Request], request: Request) -> None:
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.content_types and sent not in kind.content_types:
        raise Problem(415, "Unsupported media type", f"Send one of {', '.join(kind.content_types)}.")
    if kind.max_bytes is not None and len(request.body) > kind.max_bytes:
        raise Problem(413, "Body too large", f"The body may have {kind.max_bytes} bytes.")


def _faults(error: ValidationError, name: str) -> list[dict[str, Any]]:
    return [
        {"field": ".".join(filter(None, (name, *map(str, one["loc"])))) or "body", "detail": one["msg"]}
        for one in error.errors(include_url=False, include_context=False, include_input=False)[:50]
    ]


def _schema(adapter: TypeAdapter[Any], schemas: dict[str, Any], mode: Any) -> dict[str, Any]:
    schema = adapter.json_schema(ref_template="#/components/schemas/{model}", mode=mode)
    schemas.update(schema.pop("$defs", {}))
    if "title" in schema and schema.get("type") == "object":
        schemas[schema["title"]] = schema
        return {"$ref": f"#/components/schemas/{schema['title']}"}
    return schema


def _plain(value: Any) -> Any:
    """Arrays and tensors as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def read_query(text: str) -> Mapping[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True)) if text else {}


def warm_up_body(route: AppRoute) -> bytes:
    value = route.warm_up_value()
    return value if isinstance(value, bytes) else json.dumps(value).encode()
