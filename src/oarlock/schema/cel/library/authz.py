"""Questions about what a user may do: ``authorizer.group('').resource('pods').check('get').allowed()``.

An expression can't wait. A check whose answer isn't known raises `Unanswered`, whoever runs the expression finds it
out, and runs it again with `Permissions` that have it. How many checks an expression makes is bounded by their cost.
Source: Kubernetes' authz and authzselectors libraries (KEP-3488).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.problems import EvalError
from oarlock.schema.cel.values import no_overload

CHECK_COST = 350_000
"""What one check costs, as in Kubernetes."""


@dataclass(frozen=True, slots=True)
class PermissionQuestion:
    """The question whether a user may do this. `groups` and `name` are the user's."""

    name: str
    groups: tuple[str, ...]
    target: Target


@dataclass(frozen=True, slots=True)
class Permission:
    """The decision about a question; `error` is why there is none."""

    allowed: bool
    reason: str = ""
    error: str = ""
    cel_type = "kubernetes.authorization.Decision"


class Unanswered(Exception):
    """An expression asks something that isn't known yet. No error of the expression: it can't catch it."""

    def __init__(self, question: PermissionQuestion, user: User) -> None:
        super().__init__(question)
        self.question = question
        self.user = user


@dataclass(slots=True)
class Permissions:
    """What is known already about what users may do."""

    known: dict[PermissionQuestion, Permission] = field(default_factory=dict)

    def of(self, user: User, target: Target) -> Permission:
        question = PermissionQuestion(user.name, user.groups, target)
        answer = self.known.get(question)
        if answer is None:
            raise Unanswered(question, user)
        return answer


@dataclass(frozen=True, slots=True, eq=False)
class UserAuthorizer:
    """The variable ``authorizer``: asks about one user."""

    user: User
    answers: Permissions
    cel_type = "kubernetes.authorization.Authorizer"


@dataclass(frozen=True, slots=True, eq=False)
class _PathCheck:
    """A path that a check is about."""

    authorizer: UserAuthorizer
    path: str
    cel_type = "kubernetes.authorization.PathCheck"


@dataclass(frozen=True, slots=True, eq=False)
class _GroupCheck:
    """An API group that a check is about."""

    authorizer: UserAuthorizer
    group: str
    cel_type = "kubernetes.authorization.GroupCheck"


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck:
    """A resource that a check is about."""

    authorizer: UserAuthorizer
    target: Target
    cel_type = "kubernetes.authorization.ResourceCheck"


def _path(authorizer: Any, path: Any) -> _PathCheck:
    if type(authorizer) is not UserAuthorizer or type(path) is not str:
        raise no_overload()
    if not path:
        raise EvalError("path must not be empty")
    return _PathCheck(authorizer, path)


def _group(authorizer: Any, group: Any) -> _GroupCheck:
    if type(authorizer) is not UserAuthorizer or type(group) is not str:
        raise no_overload()
    return _GroupCheck(authorizer, group)


def _service_account(authorizer: Any, namespace: Any, name: Any) -> UserAuthorizer:
    if type(authorizer) is not UserAuthorizer or type(namespace) is not str or type(name) is not str:
        raise no_overload()
    if not name or not namespace:
        raise EvalError("Invalid service account name" if not name else "Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return replace(authorizer, user=User(f"system:serviceaccount:{namespace}:{name}", groups=groups))


def _resource(group: Any, resource: Any) -> ResourceCheck:
    if type(group) is not _GroupCheck or type(resource) is not str:
        raise no_overload()
    if not resource:
        raise EvalError("resource must not be empty")
    return ResourceCheck(group.authorizer, Target("", group.group, "*", resource))


def _narrowed(part: str) -> Callable[[Any, Any], ResourceCheck]:
    def narrowed(check: Any, value: Any) -> ResourceCheck:
        if type(check) is not ResourceCheck or type(value) is not str:
            raise no_overload()
        parts: dict[str, Any] = {part: value}
        return replace(check, target=replace(check.target, **parts))

    return narrowed


def _check(subject: Any, verb: Any) -> Permission:
    if type(verb) is not str:
        raise no_overload()
    if type(subject) is ResourceCheck:
        target = replace(subject.target, verb=verb)
    elif type(subject) is _PathCheck:
        target = Target(verb, path=subject.path)
    else:
        raise no_overload()
    authorizer: UserAuthorizer = subject.authorizer
    return authorizer.answers.of(authorizer.user, target)


def _decided(read: Callable[[Permission], Any]) -> Callable[[Any], Any]:
    def decided(answer: Any) -> Any:
        if type(answer) is not Permission:
            raise no_overload()
        return read(answer)

    return decided


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "path": _path,
    "group": _group,
    "serviceAccount": _service_account,
    "resource": _resource,
    "subresource": _narrowed("subresource"),
    "namespace": _narrowed("namespace"),
    "name": _narrowed("name"),
    "fieldSelector": _narrowed("field_selector"),
    "labelSelector": _narrowed("label_selector"),
    "check": _check,
    "allowed": _decided(lambda answer: answer.allowed),
    "reason": _decided(lambda answer: answer.reason),
    "error": _decided(lambda answer: answer.error),
    "errored": _decided(lambda answer: bool(answer.error)),
}
