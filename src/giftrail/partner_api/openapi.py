"""The OpenAPI 3.1 document, composed from the route table and the shapes, and a page of it that works offline."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from giftrail import __version__
from giftrail.partner_api import problems
from giftrail.partner_api.endpoints import Endpoint

_ERRORS_OF_EVERY_CALL = (
    problems.Code.INVALID_REQUEST,
    problems.Code.UNAVAILABLE,
    problems.Code.INTERNAL_ERROR,
)
_ERRORS_OF_AUTHENTICATED = (
    problems.Code.UNAUTHORIZED,
    problems.Code.ADDRESS_NOT_ALLOWED,
    problems.Code.RATE_LIMITED,
)
_ERRORS_OF_POST = (problems.Code.BODY_TOO_LARGE, problems.Code.UNSUPPORTED_MEDIA_TYPE)
_REFERENCE_TEMPLATE = "#/components/schemas/{name}"

PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Giftrail partner API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<div id="api"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document as JSON values."""
    structs: set[type[msgspec.Struct]] = {problems.Error}
    for endpoint in endpoints:
        structs |= {endpoint.response} | ({endpoint.request} if endpoint.request else set())
    ordered = sorted(structs, key=lambda struct: struct.__name__)
    _, components = msgspec.json.schema_components(
        ordered, ref_template=_REFERENCE_TEMPLATE, schema_hook=_no_other_types
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = re.sub(r"\{(\w+):path\}", r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Giftrail partner API",
            "version": __version__,
            "description": "Catalogue, orders, vouchers and wallet for partners. Inside /v1 only additions are made.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _numbers_as_numbers(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "security": [{"token": []}] if endpoint.authenticated else [],
        "parameters": [_request_id(required=endpoint.authenticated)]
        + [
            {
                "name": parameter.name,
                "in": parameter.where,
                "description": parameter.description,
                "required": parameter.required,
                "schema": dict(parameter.schema),
            }
            for parameter in endpoint.parameters
        ],
        "responses": {"200": _json_of(endpoint.response, endpoint.response.__doc__ or "")},
    }
    if endpoint.request is not None:
        operation["requestBody"] = {"required": endpoint.body_required, **_json_of(endpoint.request, "")}
        del operation["requestBody"]["description"]
    if any(parameter.name == "If-None-Match" for parameter in endpoint.parameters):
        operation["responses"]["304"] = {"description": "Nothing changed"}
    codes = {*endpoint.errors, *_ERRORS_OF_EVERY_CALL}
    codes |= set(_ERRORS_OF_AUTHENTICATED) if endpoint.authenticated else set()
    codes |= set(_ERRORS_OF_POST) if endpoint.method in {"POST", "PATCH"} else set()
    for status in sorted({code.status for code in codes}):
        names = sorted(f"{code.id} {code.name}" for code in codes if code.status == status)
        operation["responses"][str(status)] = _json_of(problems.Error, ", ".join(names))
    return operation


def _request_id(*, required: bool) -> dict[str, Any]:
    return {
        "name": "X-REQUEST-ID",
        "in": "header",
        "required": required,
        "description": "a new UUID with each request; echoed in the answer",
        "schema": {"type": "string", "format": "uuid"},
    }


def _json_of(struct: type[msgspec.Struct], description: str) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE_TEMPLATE.format(name=struct.__name__)}
    return {"description": " ".join(description.split()), "content": {"application/json": {"schema": schema}}}


def _no_other_types(type_: type) -> dict[str, Any]:
    raise NotImplementedError(type_)


def _numbers_as_numbers(schema: Any) -> Any:
    """Msgspec describes a Decimal as a string; on our wire it is a JSON number."""
    if isinstance(schema, dict):
        if schema.get("type") == "string" and schema.get("format") == "decimal":
            return {**{k: v for k, v in schema.items() if k != "format"}, "type": "number"}
        made = {key: _numbers_as_numbers(value) for key, value in schema.items()}
        options = made.get("anyOf")
        if options and {"type": "number"} in options:  # an integer is a number too
            made["anyOf"] = [option for option in options if option != {"type": "integer"}]
            if len(made["anyOf"]) == 1:
                made = {**{k: v for k, v in made.items() if k != "anyOf"}, **made["anyOf"][0]}
        return made
    return [_numbers_as_numbers(item) for item in schema] if isinstance(schema, list) else schema
