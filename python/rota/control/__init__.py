"""What a test controls of a server, for programs in any language: HTTP with JSON (docs/any-language.md).

`table.py` has one row for each control. Routes, the OpenAPI document and the Python client are made of these rows.
"""

from rota.control.client import Client, ControlError
from rota.control.serving import Controlled, serve

__all__ = ["Client", "ControlError", "Controlled", "serve"]
