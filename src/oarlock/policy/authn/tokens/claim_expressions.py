"""`ClaimExpression`: an expression in CEL about the claims of a token, or about the user they were mapped to.

``claims`` is an object whose values may be anything; numbers in it are doubles. ``user`` has ``username``, ``uid``,
``groups`` and ``extra``. In ``claims.a__dot__b`` an escape stands for what can't be written, as in rules of a schema.
Source: k8s.io/apiserver ``authentication/cel``, ``plugin/pkg/authenticator/token/oidc``. See also: `claim_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Literal

from oarlock.meta.context import User
from oarlock.policy.authn.tokens.claim_rules import ExpressionFailed
from oarlock.schema.cel import types
from oarlock.schema.cel.declared import declare, unescape
from oarlock.schema.cel.expression import CONDITION_BUDGET, DeclaredVariable, check_text
from oarlock.schema.cel.problems import CelError
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Ident, Select
from oarlock.schema.cel.users import USER
from oarlock.schema.cel.values import as_double

_USER = declare(USER, path="user")
_VARIABLES = {
    "claims": {"claims": DeclaredVariable(types.map_of(types.STRING, types.DYN))},
    "user": {"user": DeclaredVariable(_USER.type, _USER)} if _USER is not None else {},
}


class ClaimExpression:
    """Implements `TokenExpression`: a compiled expression about `variable`.

    With `condition` it must be of the type bool. Raises CompileError for one that isn't valid, ValueError for one that
    is no condition.
    """

    def __init__(self, source: str, *, variable: Literal["claims", "user"] = "claims", condition: bool = False) -> None:
        self.source = source
        checked = check_text(source, _VARIABLES[variable])
        if condition and checked.type != types.BOOL:
            raise ValueError("must evaluate to bool")
        nodes = list(_nodes(checked.tree))
        self.claims = frozenset(name for node in nodes if (name := _claim_read(node)))
        """The claims that it reads by name."""
        for node in nodes:
            _mean_the_field(node)
        self._program = checked.program()

    def value(self, about: Mapping[str, Any] | User) -> Any:
        """The result for these claims, or this user. Raises `ExpressionFailed`."""
        try:
            known = _user(about) if isinstance(about, User) else _claims(about)
            return self._program.run((known,), CONDITION_BUDGET)[0]
        except CelError as error:
            raise ExpressionFailed(str(error).partition("\n")[0]) from None

    def text(self, claims: Mapping[str, Any]) -> str:
        """The result, which must be a text. Raises `ExpressionFailed`."""
        value = self.value(claims)
        if not isinstance(value, str):
            raise ExpressionFailed("it must return a string")
        return value

    def texts(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        """The result: a text, a list of texts, or null; empty ones are left out. Raises `ExpressionFailed`."""
        value = self.value(claims)
        values = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(value, str) for value in values):
            raise ExpressionFailed("it must return a string or a list of strings")
        return tuple(value for value in values if value)

    def holds(self, about: Mapping[str, Any] | User) -> bool:
        """Whether the condition holds. Raises `ExpressionFailed`."""
        return self.value(about) is True


def _claims(claims: Any) -> Any:
    """Claims as expressions read them: every number is a double, as in Go."""
    if isinstance(claims, Mapping):
        return {key: _claims(claim) for key, claim in claims.items()}
    if isinstance(claims, list):
        return [_claims(claim) for claim in claims]
    return as_double(claims) if isinstance(claims, int) and not isinstance(claims, bool) else claims


def _user(user: User) -> dict[str, Any]:
    """A user as expressions read it."""
    extra = {key: [*values] for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": [*user.groups], "extra": extra}


def _nodes(node: Expr) -> Iterator[Expr]:
    """A part of an expression, and all parts of it."""
    waiting: list[Any] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, Expr):
            yield part
            waiting += [getattr(part, field.name) for field in fields(part) if field.name != "type"]


def _claim_read(node: Expr) -> str:
    """The claim that this part reads by its name, ``""`` for none."""
    match node:
        case Select(operand=Ident(name="claims"), field=name):
            return name
        case Call(function="_?._", args=[Ident(name="claims"), Const(value=str(name))]):
            return name
    return ""


def _mean_the_field(node: Expr) -> None:
    """Let a part that has an escaped name mean the field."""
    match node:
        case Select():
            node.field = unescape(node.field)
        case Call(function="_?._", args=[_, Const(value=str(name)) as constant]):
            constant.value = unescape(name)
