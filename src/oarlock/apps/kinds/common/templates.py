"""What the kinds that make pods have in common: a selector and a template that fit together, and its defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from oarlock.apps.kinds.common.rules import IMMUTABLE
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.pods.checks import check_template
from oarlock.apps.kinds.pods.defaults import settle_template
from oarlock.meta import labels
from oarlock.meta.fielderrors import FieldError, Invalid, Required

__all__ = ["NO_MATCH", "check_selector_and_template", "default_template", "in_order", "selects"]

NO_MATCH: Final = "`selector` does not match template `labels`"


def check_selector_and_template(tree: Tree, old: Tree | None, *, fixed: bool = True) -> Iterator[FieldError]:
    """The selector of a kind that makes pods, and its template."""
    spec = tree.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    told = at(template, "metadata.labels", {})
    if selector is None:
        yield Required("spec.selector")
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield Invalid("spec.selector", selector, "empty selector is invalid for deployment")
    if not selects(selector, told):
        yield Invalid("spec.template.metadata.labels", told or None, NO_MATCH)
    claims = [at(one, "metadata.name", "") for one in spec.get("volumeClaimTemplates") or ()]
    yield from check_template(template, "spec.template", claims=claims)
    if fixed and old is not None and selector != at(old, "spec.selector"):
        yield Invalid("spec.selector", in_order(selector), IMMUTABLE)


def in_order(selector: Tree | None) -> Tree | None:
    """A selector as it is shown: its labels in order of their names."""
    if not selector or "matchLabels" not in selector:
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}


def selects(selector: Tree | None, told: Mapping[str, str]) -> bool:
    if not selector:
        return False
    try:
        return labels.from_label_selector(selector).matches(told)
    except (ValueError, FieldError):
        return False


def default_template(tree: Tree) -> None:
    settle_template(at(tree, "spec.template"))
