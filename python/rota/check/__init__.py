"""`rota check`: the engines that check the protocol and this implementation of it, and one table of their figures."""

from __future__ import annotations

from rota.check.engines import Report

__all__ = ["Report"]
