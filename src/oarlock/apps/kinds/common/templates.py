"""What the kinds that make pods have in common: a selector and a template that fit together, and its defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import check_label_selector
from oarlock.apps.kinds.pods.checks import check_template
from oarlock.apps.kinds.pods.defaults import settle_template, warn_of_template
from oarlock.meta import labels
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, Required
from oarlock.meta.json_trees import Tree

NO_MATCH: Final = "`selector` does not match template `labels`"


def check_selector(selector: Tree | None, path: str, kind: str, unreadable: str = "") -> Iterator[FieldError]:
    """The selector of a kind that makes pods. `unreadable` is said of one that can't be used, if anything is."""
    if selector is None:
        yield Required(path)
        return
    bad = list(check_label_selector(selector, path))
    yield from bad
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield Invalid(path, selector, f"empty selector is invalid for {kind}")
    if bad:
        yield Invalid(path, in_order(selector), unreadable)


def check_selected(spec: Tree, kind: str, ctx: Context, old: Tree | None) -> Iterator[FieldError]:
    """A template whose pods the selector has to select, and which are always restarted, in a `kind`."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    pod_labels = at(template, "metadata.labels", {})
    if selector is not None and list(check_label_selector(selector, "")):
        return
    if not _selects_if_any(selector, pod_labels):
        yield Invalid("spec.template.metadata.labels", go_value("", pod_labels or None), NO_MATCH)
    yield from check_always(template, kind, ctx, at(old, "spec.template"), spec.get("volumeClaimTemplates") or ())


def check_always(
    template: Tree, kind: str, ctx: Context, old: Tree | None, claims: Iterable[Tree] = ()
) -> Iterator[FieldError]:
    """Check the template of pods that are always restarted and run until they are deleted."""
    path = "spec.template"
    yield from check_template(template, path, claims=[at(claim, "metadata.name", "") for claim in claims])
    if at(template, "spec.activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        yield Forbidden(f"{path}.spec.activeDeadlineSeconds", why)
    warn_of_template(template, path, old, ctx)


def _selects_if_any(selector: Tree | None, pod_labels: Mapping[str, str]) -> bool:
    """The same as `selects`, but an empty selector selects everything."""
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return True
    return selects(selector, pod_labels)


def in_order(selector: Tree | None) -> Tree | None:
    """A selector as it is shown: its labels in order of their names."""
    if not selector or "matchLabels" not in selector:
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}


def selects(selector: Tree | None, pod_labels: Mapping[str, str]) -> bool:
    if not selector:
        return False
    try:
        return labels.from_label_selector(selector).matches(pod_labels)
    except (ValueError, FieldError):
        return False


def default_template(tree: Tree) -> None:
    settle_template(at(tree, "spec.template"))
