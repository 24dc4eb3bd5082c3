"""Match conditions of webhooks: how they are compiled, and what they are about.

They are told of no namespace. See also: ``expressions.conditions``, which runs them.
Source: k8s.io/apiserver ``admission/plugin/webhook/generic``.
"""

from __future__ import annotations

from oarlock.meta.json_trees import Tree
from oarlock.policy.admission.expressions.conditions import (
    CompiledExpression,
    ExpressionRun,
    FaultyExpression,
    all_hold,
    compile_expression,
    unusable_expression,
)
from oarlock.policy.admission.expressions.environment import Scope, variables_of
from oarlock.policy.admission.expressions.waiting import ExpressionRunner, ReviewedRequest
from oarlock.policy.admission.webhooks.rules import ConfiguredWebhook

_SCOPE = variables_of(Scope())


def call_condition(source: str, path: str = "") -> CompiledExpression:
    """Compile a condition. Raises FaultyExpression, which names `path`."""
    return compile_expression(source, path, _SCOPE)


def stored_condition(source: str) -> CompiledExpression:
    """The same for one that is stored: if it isn't valid here, it always fails."""
    try:
        return call_condition(source)
    except FaultyExpression as error:
        return unusable_expression(error.fault)


async def is_asked(
    hook: ConfiguredWebhook,
    objects: tuple[Tree | None, Tree | None],
    about: Tree,
    runner: ExpressionRunner,
    request: ReviewedRequest,
) -> bool:
    """Whether the conditions of a webhook hold. `objects` are the new and the old one, `about` is the request.

    Raises UndecidedConditions.
    """
    values = {
        "object": objects[0],
        "oldObject": objects[1],
        "request": about,
        "namespaceObject": None,
        **request.authorizers(about.get("name", "")),
    }
    run = ExpressionRun(values)
    return await runner.result(all_hold(hook.conditions, run), run, request)
