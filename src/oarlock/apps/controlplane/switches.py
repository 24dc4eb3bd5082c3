"""Which parts and controllers of a control plane are left out: ``disable`` and ``controllers``.

`parts` says what there is; names of controllers are kube-controller-manager's, and so are its short ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from oarlock.schema.types.declaring import did_you_mean

if TYPE_CHECKING:
    from oarlock.apps.controlplane.part import ControlPlanePart

__all__ = ["CONTROLLERS", "UnknownSwitch", "parts_left"]

T = TypeVar("T")

CONTROLLERS = "controllers"
"""What disables every controller."""

_SHORT_NAMES = {
    "clusterrole-aggregation": "clusterrole-aggregation-controller",
    "csrapproving": "certificatesigningrequest-approving-controller",
    "csrcleaner": "certificatesigningrequest-cleaner-controller",
    "csrsigning": "certificatesigningrequest-signing-controller",
    "garbagecollector": "garbage-collector-controller",
    "legacy-serviceaccount-token-cleaner": "legacy-serviceaccount-token-cleaner-controller",
    "namespace": "namespace-controller",
    "resourcequota": "resourcequota-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "serviceaccount": "serviceaccount-controller",
    "serviceaccount-token": "serviceaccount-token-controller",
    "tokencleaner": "token-cleaner-controller",
    "validatingadmissionpolicy-status": "validatingadmissionpolicy-status-controller",
}


_GUESS = "did you mean"

_MANAGED = frozenset(
    (
        "certificatesigningrequest-approving-controller",
        "certificatesigningrequest-cleaner-controller",
        "certificatesigningrequest-signing-controller",
        "clusterrole-aggregation-controller",
        "garbage-collector-controller",
        "namespace-controller",
        "resourcequota-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
        "serviceaccount-token-controller",
        "storage-version-migrator-controller",
        "validatingadmissionpolicy-status-controller",
    )
)
"""kube-controller-manager's. The others are kube-apiserver's own, which serves nothing without them."""


class UnknownSwitch(ValueError):
    """A name that ``disable`` or ``controllers`` can't have. `option` is which of the two, `name` what was given."""

    def __init__(self, option: str, name: str, why: str) -> None:
        super().__init__(f"{option}={name}: {why}")
        self.option, self.name, self.why = option, name, why


def parts_left(
    parts: Sequence[ControlPlanePart], disable: Sequence[str], controllers: Sequence[str]
) -> list[ControlPlanePart]:
    """The parts that aren't disabled, with the controllers that shall run. Raises `UnknownSwitch`.

    `controllers` is about those of kube-controller-manager alone, as in Kubernetes.
    """
    names = {part.name for part in parts}
    running = {name for part in parts for name in part.controllers}
    for name in disable:
        if _long(name) not in names | running | {CONTROLLERS}:
            known = _known(name, names | running | {CONTROLLERS})
            if not known.startswith(_GUESS):
                known = f"the parts are {', '.join(sorted(names))}; the controllers are {', '.join(sorted(running))}"
            raise UnknownSwitch("disable", name, f"there is no such part or controller: {known}")
    left = [part for part in parts if part.name not in disable]
    for part in left:
        for need in sorted(set(part.needs) & set(disable)):
            raise UnknownSwitch("disable", need, f"{part.name} needs it: disable {part.name} too")
    managed = _wanted(controllers, running) | (running - _MANAGED)
    wanted = set() if CONTROLLERS in disable else managed - set(map(_long, disable))
    return [replace(part, controllers=_among(part.controllers, wanted)) for part in left]


def _wanted(words: Sequence[str], running: set[str]) -> set[str]:
    """What a list such as ``*,-name`` selects of the controllers there are; an explicit name comes before ``*``."""
    managed = running & _MANAGED
    for word in words:
        name = _long(word.removeprefix("-"))
        if word != "*" and name in running - managed:
            raise UnknownSwitch(CONTROLLERS, word, f"it isn't one of kube-controller-manager's: disable={name} ends it")
        if word != "*" and name not in managed:
            known = _known(word.removeprefix("-"), managed)
            raise UnknownSwitch(CONTROLLERS, word, f"there is no such controller: {known}")
    listed = {_long(word) for word in words if word != "*" and not word.startswith("-")}
    excluded = {_long(word[1:]) for word in words if word.startswith("-")}
    return (managed if "*" in words else set()) - excluded | listed


def _known(word: str, names: set[str]) -> str:
    """What a wrong name may have meant, also by a short name; else the names there are."""
    short = {short for short, name in _SHORT_NAMES.items() if name in names}
    guess = did_you_mean(word, names | short)
    return guess if guess.startswith(_GUESS) else did_you_mean(word, names)


def _long(name: str) -> str:
    return _SHORT_NAMES.get(name, name)


def _among(controllers: Mapping[str, T], wanted: Iterable[str]) -> Mapping[str, T]:
    return {name: controller for name, controller in controllers.items() if name in wanted}
