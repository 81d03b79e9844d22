"""The kinds of values that controls take and give, as JSON Schema, and the check of a value against them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from rota.arguments import INT32_MAX

Json: TypeAlias = dict[str, Any]
"""A JSON Schema, or a JSON object."""

REQUIRED = object()

TEXT: Json = {"type": "string", "minLength": 1}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
TEXTS: Json = {"type": "array", "items": {"type": "string"}}
TEXTS_OR_NULLS: Json = {"type": "array", "items": TEXT_OR_NULL}
COUNT: Json = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
POSITIVE: Json = {"type": "integer", "minimum": 1, "maximum": INT32_MAX}
TIME_MS: Json = {"type": "integer", "minimum": 0, "maximum": 2**53}
OFFSET: Json = {"type": "integer", "minimum": -1}
NEW_OFFSET: Json = {"type": "integer", "minimum": 0, "maximum": 2**53}
TRUTH: Json = {"type": "boolean"}


def optional(schema: Json) -> Json:
    """A schema that also allows null."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*types, "null"]}


def one_of(*names: str) -> Json:
    """One of these words."""
    return {"type": "string", "enum": list(names)}


def listed(items: Json) -> Json:
    """A list of these."""
    return {"type": "array", "items": items}


def described(schema: Json, description: str) -> Json:
    """The same with a description."""
    return {**schema, "description": description}


def shaped(**fields: Json) -> Json:
    """An object that has exactly these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


class Param(NamedTuple):
    """One value that a control takes."""

    name: str
    schema: Json
    doc: str
    default: Any = REQUIRED


class UnfitError(ValueError):
    """A value that a control does not take."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        given = json.dumps(value, ensure_ascii=False)
        super().__init__(f"{field} is {given if len(given) <= 100 else given[:97] + '...'}: expected {expected}")
        self.field = field
        self.expected = expected


class MissingFieldError(UnfitError):
    """A field without a default that was not given."""

    def __init__(self, field: str, expected: str) -> None:
        ValueError.__init__(self, f"{field} is missing: give {expected}")
        self.field = field
        self.expected = expected


class UnknownFieldError(UnfitError):
    """A field that a control does not have."""

    def __init__(self, field: str, names: list[str]) -> None:
        remedy = f"give {', '.join(names)}" if names else "this call has no fields"
        ValueError.__init__(self, f"there is no field {field}: {remedy}")
        self.field = field
        self.expected = f"only {', '.join(names)}" if names else "no fields"


def fitting(params: tuple[Param, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each parameter, with the defaults of those that are not given. Raises UnfitError."""
    names = [param.name for param in params]
    for name in given:
        if name not in names:
            raise UnknownFieldError(name, names)
    values = {}
    for param in params:
        value = given.get(param.name, param.default)
        if value is REQUIRED:
            raise MissingFieldError(param.name, expected(param.schema))
        if not fits(value, param.schema):
            raise UnfitError(param.name, value, expected(param.schema))
        values[param.name] = value
    return values


IS_OF_TYPE: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


PLURALS = {("string",): "strings", ("string", "null"): "strings or nulls"}
"""The items of lists, by their types."""


def types_of(schema: Json) -> list[str]:
    """The types that a schema names."""
    named = schema["type"]
    return named if isinstance(named, list) else [named]


def fits(value: Any, schema: Json) -> bool:
    """Whether a value is valid by one of the schemas above."""
    if not any(IS_OF_TYPE[name](value) for name in types_of(schema)):
        return False
    if value is None:
        return True
    if "enum" in schema:
        return value in schema["enum"]
    if isinstance(value, list):
        return all(fits(item, schema["items"]) for item in value)
    if isinstance(value, dict):
        fields = schema["properties"]
        return value.keys() == fields.keys() and all(fits(value[name], fields[name]) for name in fields)
    if isinstance(value, str):
        return len(value) >= int(schema.get("minLength", 0))
    return isinstance(value, bool) or schema.get("minimum", value) <= value <= schema.get("maximum", value)


def expected(schema: Json) -> str:
    """What a schema takes, in words: `a whole number from 0 to 9, or null`."""
    if "enum" in schema:
        return " or ".join(json.dumps(name) for name in schema["enum"])
    first, *others = (_of_type(name, schema) for name in types_of(schema))
    return ", or ".join([first, *others])


def _of_type(name: str, schema: Json) -> str:
    if name == "integer":
        highest = f" to {schema['maximum']}" if "maximum" in schema else " on"
        return f"a whole number from {schema['minimum']}{highest}"
    if name == "array":
        return f"a list of {_plural(schema['items'])}"
    if name == "string":
        return "a non-empty string" if schema.get("minLength") else "a string"
    return "true or false" if name == "boolean" else name


def _plural(schema: Json) -> str:
    if schema["type"] == "object":
        return f"objects with {', '.join(schema['properties'])}"
    return f"lists of {_plural(schema['items'])}" if schema["type"] == "array" else PLURALS[tuple(types_of(schema))]
