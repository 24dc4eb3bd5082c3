"""`ExpressionCondition`: whether a webhook is asked about a question, as an expression in CEL about ``request``.

``request`` is the spec of a SubjectAccessReview. Its texts and lists are always there, and empty if nothing is given;
``resourceAttributes`` or ``nonResourceAttributes`` is there, and the selectors if there are any.
Source: k8s.io/apiserver ``authorization/cel``. See also: `webhook`.
"""

from __future__ import annotations

from oarlock.meta.json_trees import Tree
from oarlock.schema.cel import types
from oarlock.schema.cel.declared import declare
from oarlock.schema.cel.expression import CONDITION_BUDGET, DeclaredVariable, check_text
from oarlock.schema.structural.nodes import parse

_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}


def _object(**properties: Tree) -> Tree:
    return {"type": "object", "properties": properties}


def _texts(*names: str) -> dict[str, Tree]:
    return dict.fromkeys(names, _TEXT)


_REQUIREMENT = {"type": "array", "items": _object(**_texts("key", "operator"), values=_TEXTS)}
_SELECTOR = _object(rawSelector=_TEXT, requirements=_REQUIREMENT)
_ABOUT = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_REQUEST = declare(
    parse(
        _object(
            **_texts("user", "uid"),
            groups=_TEXTS,
            extra={"type": "object", "additionalProperties": _TEXTS},
            resourceAttributes=_object(**_texts(*_ABOUT), fieldSelector=_SELECTOR, labelSelector=_SELECTOR),
            nonResourceAttributes=_object(**_texts("path", "verb")),
        )
    ),
    path="request",
)


class ExpressionCondition:
    """A compiled expression. Raises CompileError for one that isn't valid, ValueError for one that is no condition."""

    def __init__(self, source: str) -> None:
        assert _REQUEST is not None
        checked = check_text(source, {"request": DeclaredVariable(_REQUEST.type, _REQUEST)})
        if checked.type != types.BOOL:
            raise ValueError(f"{source!r} must evaluate to bool")
        self._program = checked.program()

    def holds(self, spec: Tree) -> bool:
        """Whether it holds. Raises CelError."""
        value, _ = self._program.run((_complete(spec),), CONDITION_BUDGET)
        return value is True


def _complete(spec: Tree) -> Tree:
    whole: Tree = {"user": "", "uid": "", "groups": [], "extra": {}, **spec}
    about = whole.get("resourceAttributes")
    if about is not None:
        whole["resourceAttributes"] = {**dict.fromkeys(_ABOUT, ""), **about}
    return whole
