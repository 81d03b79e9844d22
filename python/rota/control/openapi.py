"""The OpenAPI document of the controls, made of their table. `python -m rota.control.openapi` prints it."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

import rota
from rota.control.table import GET, TABLE, Control
from rota.control.values import REQUIRED, TEXT, Json, Param, described, optional, shaped
from rota.http import routes

ERRORS = {
    "400": "BadValue: a value cannot be; `field` and `expected` say which and why.",
    "401": "Unauthorized: the token is missing or wrong.",
    "404": "NoSuchGroup, NoSuchMember, NoSuchTopic, NoSuchPartition, NoSuchNode, NoSuchControl: it does not exist.",
    "409": "Refused: the server cannot do that as things are.",
    "503": "ServerError: the server has stopped.",
}
NOT_STABLE = {"504": "NotStable: the time is over, and `message` says what the group waits for."}

ERROR: Json = {
    "type": "object",
    "description": "Any error.",
    "properties": {
        "error": described(TEXT, "A stable name."),
        "message": described(TEXT, "What is wrong, with what value, and what to do."),
        "field": described(optional(TEXT), "Of a BadValue: the field, or null if it is about none."),
        "expected": described(TEXT, "Of a BadValue: what the field takes."),
    },
    "required": ["error", "message"],
}


def document() -> Json:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Controls of a rota server",
            "description": "What `rota serve --control` offers to tests in any language (docs/any-language.md).",
            "version": rota.__version__,
        },
        "security": [{}, {"token": []}],
        "paths": {control.path: {control.method.lower(): operation(control)} for control in TABLE} | shown_paths(),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"ControlError": ERROR, **shown_schemas()},
        },
    }


def operation(control: Control) -> Json:
    """One control."""
    takes: Json = {}
    if control.method == GET and control.params:
        takes["parameters"] = [query(param) for param in control.params]
    elif control.params:
        takes["requestBody"] = {"required": has_required(control.params), "content": as_json(body(control.params))}
    errors = ERRORS | (NOT_STABLE if control.waits else {})
    return {
        "operationId": control.name,
        "summary": control.doc,
        **takes,
        "responses": {
            "200": {"description": "Done.", "content": as_json(shaped(**control.result))},
            **{
                status: {"description": meaning, "content": as_json(reference("ControlError"))}
                for status, meaning in errors.items()
            },
        },
    }


def body(params: tuple[Param, ...]) -> Json:
    """The JSON object that a POST carries."""
    return {
        "type": "object",
        "properties": {param.name: with_default(param) | {"description": param.doc} for param in params},
        "required": [param.name for param in params if param.default is REQUIRED],
        "additionalProperties": False,
    }


def query(param: Param) -> Json:
    """A field of a query."""
    return {
        "name": param.name,
        "in": "query",
        "description": param.doc,
        "required": param.default is REQUIRED,
        "schema": with_default(param),
    }


def with_default(param: Param) -> Json:
    """A parameter's schema."""
    return param.schema if param.default is REQUIRED else {**param.schema, "default": param.default}


def has_required(params: tuple[Param, ...]) -> bool:
    """Whether there is a field that has to be given."""
    return any(param.default is REQUIRED for param in params)


def as_json(schema: Json) -> Json:
    """Content in JSON."""
    return {routes.JSON: {"schema": schema}}


def reference(name: str) -> Json:
    """A schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


SHOWN = {"/groups/{group}": "group", "/groups": "groups", "/healthz": "healthz", "/readyz": "readyz"}
"""What `rota.http` shows, by path, and its schema."""


def shown_paths() -> Json:
    """The paths of `rota.http`, which the control listener has, too."""
    paths: Json = {}
    for path, kind in SHOWN.items():
        name = {"name": "group", "in": "path", "required": True, "schema": TEXT}
        paths[path] = {
            "get": {
                "operationId": f"show_{kind}",
                "summary": "See docs/http.md.",
                **({"parameters": [name]} if "{" in path else {}),
                "responses": {
                    "200": {"description": "As things are.", "content": as_json(reference(kind))},
                    "default": {"description": "An error.", "content": as_json(reference("error"))},
                },
            }
        }
    return paths


def shown_schemas() -> Json:
    """The schemas of `rota.http`."""
    found: Json = json.loads(routes.packaged("schema.json"))
    return {name: relocated(schema) for name, schema in found["$defs"].items()}


def relocated(schema: Any) -> Any:
    """A schema whose references lead to where this document has its schemas."""
    if isinstance(schema, dict):
        return {
            name: value.replace("#/$defs/", "#/components/schemas/") if name == "$ref" else relocated(value)
            for name, value in schema.items()
        }
    return [relocated(item) for item in schema] if isinstance(schema, list) else schema


@cache
def text() -> bytes:
    """The document as JSON."""
    return json.dumps(document(), indent=1).encode() + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(text())
