"""Short ways to write the columns of Kubernetes' own kinds. See also: ``core.pod``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oarlock.apps.kinds.common.trees import at
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import TimeError, human_duration, parse_rfc3339
from oarlock.schema.definition import Column, RowCells, Scale

AGE = Column("Age", ".metadata.creationTimestamp", "age")
NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


def age_of(tree: Tree, now: float) -> str:
    return since(at(tree, "metadata.creationTimestamp", ""), now)


def since(time: str, now: float) -> str:
    if not time:
        return UNKNOWN
    try:
        return human_duration(now - parse_rfc3339(time))
    except TimeError:
        return "<invalid>"


def pairs(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Tree | None) -> str:
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = ",".join(expression.get("values") or ())
        terms.append(
            {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}.get(operator, f"!{key}")
        )
    return ",".join(terms) or NONE


def containers_of(template: Tree | None) -> tuple[str, str]:
    """The names and images of the containers of a template."""
    containers = at(template or {}, "spec.containers", [])
    return ",".join(container.get("name", "") for container in containers), ",".join(
        container.get("image", "") for container in containers
    )


def first_few(values: Iterable[str], most: int = 3) -> str:
    """The first of many, and how many more there are."""
    texts = list(values)
    more = f" + {len(texts) - most} more..." if len(texts) > most else ""
    return (",".join(texts[:most]) + more) or NONE


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(modes: Iterable[str]) -> str:
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def values_at(*paths: str) -> RowCells:
    """A row of the values at these paths, and the age."""
    return lambda tree, now: [*(at(tree, path) for path in paths), age_of(tree, now)]


def text(name: str, description: str = "", *, wide: bool = False) -> Column:
    """A column of texts; a `wide` one is shown with ``-o wide``."""
    return Column(name, description=description, priority=int(wide))


def number(name: str, description: str = "", *, wide: bool = False) -> Column:
    """A column of whole numbers."""
    return Column(name, type="integer", description=description, priority=int(wide))


def flag(name: str, description: str = "") -> Column:
    """A column of true and false."""
    return Column(name, type="boolean", description=description)


def age() -> Column:
    """The age of the object."""
    return Column("Age", ".metadata.creationTimestamp", "age")


POD_COLUMNS = (text("Containers", wide=True), text("Images", wide=True), text("Selector", wide=True))
"""The last columns of a kind that makes pods of a template."""

REPLICAS = Scale(".spec.replicas", ".status.replicas", ".spec.selector")
"""Where the numbers of pods are in a kind that has so many of them."""
