"""A run as text: one step a line, which is read back and played again.

`rota check differential --replay FILE` plays one; a run that failed once is kept as such a file.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rota import model
from rota.check.differential import steps
from rota.check.differential.volume import Failure
from rota.model import transactions

CLASSES: dict[str, type] = {
    each.__name__: each
    for each in (
        *(steps.Ask, steps.Pass, steps.End, steps.Crash, steps.HandOver, steps.Loaded, steps.LoadFails),
        *(steps.DeleteTopics, steps.ChangeTopics, steps.Settings),
        *(model.JoinGroup, model.SyncGroup, model.Heartbeat, model.LeaveGroup, model.OffsetCommit, model.OffsetFetch),
        *(model.DescribeGroup, model.ListGroups, model.DeleteGroup, model.OffsetDelete),
        *(steps.AskTransaction, steps.Mark),
        *(transactions.InitProducerId, transactions.AddParticipants, transactions.EndTransaction),
        *(model.ConsumerGroupHeartbeat, model.ConsumerGroupDescribe),
    )
}


def text(failure: Failure) -> str:
    """The settings, then the steps."""
    settings = " ".join(f"{name}={value}" for name, value in failure.config.items())
    return "\n".join([f"config {settings}", *map(_written, failure.steps)]) + "\n"


def _written(value: Any) -> str:
    if type(value).__name__ not in CLASSES:
        return repr(value)
    given = (f"{each.name}={_written(getattr(value, each.name))}" for each in fields(value) if _is_said(value, each))
    return f"{type(value).__name__}({', '.join(given)})"


def _is_said(value: Any, each: Any) -> bool:
    return bool(getattr(value, each.name) != each.default)


def read(lines: str) -> tuple[Mapping[str, int | str], list[steps.Step]]:
    """Settings and steps. Lines that begin with # are comments. Raises ValueError for a line that is neither."""
    config: dict[str, int | str] = {}
    found: list[steps.Step] = []
    for line in lines.splitlines():
        if line.startswith("config "):
            pairs = (pair.partition("=") for pair in line.split()[1:])
            config |= {name: int(value) if value.lstrip("-").isdigit() else value for name, _, value in pairs}
        elif line.strip() and not line.startswith("#"):
            found.append(_made(ast.parse(line.strip(), mode="eval").body))
    return config, found


def _made(node: ast.expr) -> Any:
    """Only the classes of steps and requests, and literals."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES and not node.args:
        return CLASSES[node.func.id](**{each.arg: _made(each.value) for each in node.keywords if each.arg})
    return ast.literal_eval(node)
