"""The status that a new object begins with. Source: the strategies of Kubernetes' registries."""

from __future__ import annotations

from oarlock.apps.kinds.common.trees import Settle, below
from oarlock.meta.json_trees import Tree

__all__ = ["empty_load_balancer", "empty_status", "initial_phase", "initial_status"]


def initial_phase(phase: str) -> Settle:
    def prepare(new: Tree) -> None:
        below(new, "status").setdefault("phase", phase)

    return prepare


def empty_load_balancer(new: Tree) -> None:
    below(below(new, "status"), "loadBalancer")


def initial_status(**fields: object) -> Settle:
    """Sets fields of the status of a new object, which Go writes even if they are empty."""

    def prepare(new: Tree) -> None:
        status = below(new, "status")
        for name, value in fields.items():
            status.setdefault(name, value)

    return prepare


def empty_status(new: Tree) -> None:
    below(new, "status")
