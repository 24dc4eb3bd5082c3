"""The user and the options of a request as trees, as reviews and expressions have them. Empty fields are left out.

Source: k8s.io/api ``admission/v1`` AdmissionRequest.
"""

from __future__ import annotations

from oarlock.meta.context import Context, User
from oarlock.meta.json_trees import Tree
from oarlock.meta.options import DeleteOptions, WriteOptions

_KINDS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def user_tree(user: User) -> Tree:
    """A UserInfo."""
    tree: Tree = {"username": user.name}
    if user.uid:
        tree["uid"] = user.uid
    if user.groups:
        tree["groups"] = list(user.groups)
    if user.extra:
        tree["extra"] = {key: list(values) for key, values in user.extra.items()}
    return tree


def options_tree(ctx: Context, operation: str) -> Tree | None:
    """The options, with their kind; None for CONNECT."""
    kind = _KINDS.get(operation)
    if kind is None:
        return None
    tree: Tree = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    options = ctx.options
    if isinstance(options, DeleteOptions):
        given = options.preconditions
        pairs = {
            "gracePeriodSeconds": options.grace_period_seconds,
            "orphanDependents": options.orphan_dependents,
            "propagationPolicy": options.propagation_policy,
        }
        tree |= {key: value for key, value in pairs.items() if value is not None}
        if given is not None:
            named = {"uid": given.uid, "resourceVersion": given.resource_version}
            tree["preconditions"] = {key: value for key, value in named.items() if value is not None}
    if ctx.dry_run:
        tree["dryRun"] = ["All"]
    if isinstance(options, WriteOptions):
        if options.field_manager:
            tree["fieldManager"] = options.field_manager
        if options.field_validation != "Warn":  # which is what counts if nothing is said
            tree["fieldValidation"] = options.field_validation
    return tree
