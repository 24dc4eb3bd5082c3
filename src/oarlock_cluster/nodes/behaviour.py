"""`PodBehaviour`: what the containers of a pod do, from annotations, from rules by selector, or from Python."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from oarlock import Pipe, parse_quantity
from oarlock.extend import Selector, Tree, from_label_selector

__all__ = ["BehaviourRule", "PodBehaviour", "Usage", "UsageSource", "behaviour_of", "rules_of"]

PREFIX = "sim/"

Usage = Mapping[str, Mapping[str, float]]
"""What each container of a pod uses, by its name: ``cpu`` in cores, ``memory`` in bytes."""
UsageSource = Callable[[Tree], Usage | None]


@dataclass(frozen=True, slots=True)
class PodBehaviour:
    """What the containers of a pod do. By default they run and are ready at once; those of a Job end with 0.

    Times are in seconds. An annotation ``sim/FIELD`` of the pod sets a field, with ``-`` for ``_``, such as
    ``sim/ready-after-s: "20"``. Those that need no value are true when they are there.
    """

    hold: bool = False
    """The pod stays Pending."""
    notready: bool = False
    """The pod runs, and never gets ready, as with a readiness probe that fails."""
    keep: bool = False
    """A pod that is being deleted isn't removed."""
    run: bool = False
    """A Job's pod keeps running."""
    exit: int | None = None
    """The containers end with this code, and the pod with them, whatever its restart policy."""
    crash: int | None = None
    """The containers end with this code, and are started again after a back-off where the restart policy says so."""
    reason: str = ""
    """Why a container ended that did not end with 0, such as ``OOMKilled``; ``Error`` by default."""
    fails: int | None = None
    """So many times the containers end with 1 (or `crash`); after that they do as others."""
    image_error: str = ""
    """The image can't be pulled: the message says why."""
    start_s: float = 0.0
    """How long pulling and starting takes, for each init container and for the others together."""
    ready_after_s: float = 0.0
    """How long a started container takes to be ready."""
    run_s: float = 0.0
    """How long a container runs that ends."""
    stop_s: float = 0.0
    """How long containers take to stop, at most the pod's grace period."""
    log: str | Callable[[Tree, str], str] = ""
    """What containers log, or a function of the pod and the container's name that returns it."""
    answer: Callable[[Tree, Sequence[str]], tuple[int, str]] | None = None
    """A function of the pod and a command that returns the exit code of the command, and what it prints."""
    cpu: float = 0.001
    """How many cores each container uses, as a quantity."""
    memory: float = 4 * 1024 * 1024
    """How many bytes each container uses, as a quantity."""
    ports: Mapping[int, int | Callable[[Pipe], Awaitable[object]]] = field(default_factory=dict)
    """What is behind ports of the pod: a port of this machine, or a function that is called for each connection."""

    def ends_with(self, pod: Mapping[str, Any], attempt: int) -> int | None:
        """The exit code of containers that were started after `attempt` failures; None if they run on."""
        if self.exit is not None:
            return self.exit
        if self.fails is not None and attempt < self.fails:
            return self.crash or 1
        if self.crash is not None and self.fails is None:
            return self.crash
        of_job = any(owner.get("kind") == "Job" for owner in pod["metadata"].get("ownerReferences") or ())
        return 0 if of_job and not self.run else None


_FIELDS = {each.name: each.type for each in fields(PodBehaviour)}
_TRUSTED = ("ports",)
"""What annotations can't set: it reaches this machine."""


def _value(name: str, value: Any) -> Any:
    kind = str(_FIELDS[name])
    if callable(value):
        return value
    if kind.startswith("Callable"):
        raise ValueError(f"{name} is a function")
    if name in ("cpu", "memory"):
        return float(parse_quantity(value))
    if name == "ports":
        return {int(port): target if callable(target) else int(target) for port, target in dict(value).items()}
    if kind == "bool":
        return value is not False and str(value).lower() != "false"
    return int(value) if kind.startswith("int") else float(value) if kind == "float" else str(value)


def _changes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that settings name; what isn't one, or has no such value, is left out."""
    changes = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name in _FIELDS:
            try:
                changes[name] = _value(name, value)
            except (TypeError, ValueError):
                continue
    return changes


@dataclass(frozen=True, slots=True)
class BehaviourRule:
    """How the pods of a selector behave: settings by field, or a function of the pod."""

    selector: Selector
    settings: Mapping[str, Any] | Callable[[Tree], PodBehaviour]
    namespace: str = ""

    def applied(self, pod: Tree, behaviour: PodBehaviour) -> PodBehaviour:
        metadata = pod["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return behaviour
        if not self.selector.matches(metadata.get("labels") or {}):
            return behaviour
        settings = self.settings
        return settings(pod) if callable(settings) else replace(behaviour, **_changes(settings))


def rules_of(tree: Mapping[str, Any]) -> list[BehaviourRule]:
    """The ``behaviours`` of a file: ``selector`` (a label selector), ``namespace``, and fields of `PodBehaviour`."""
    return [
        BehaviourRule(
            from_label_selector(rule.get("selector") or {}),
            {name: value for name, value in rule.items() if name not in ("selector", "namespace")},
            rule.get("namespace") or "",
        )
        for rule in tree.get("behaviours") or ()
    ]


def behaviour_of(pod: Tree, rules: Iterable[BehaviourRule] | Sequence[BehaviourRule] = ()) -> PodBehaviour:
    """What the rules say in their order, and then the pod's own annotations."""
    behaviour = PodBehaviour()
    for rule in rules:
        behaviour = rule.applied(pod, behaviour)
    annotations = pod["metadata"].get("annotations") or {}
    given = {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
    own = {key: value for key, value in given.items() if key not in _TRUSTED}
    return replace(behaviour, **_changes(own)) if own else behaviour
