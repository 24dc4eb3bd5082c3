"""How the claims of a token become a user: by name and prefix, or by expressions; and which claims are refused."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.meta.context import User
from oarlock.policy.authn.authenticator import BadCredentials
from oarlock.policy.authn.tokens.issued_tokens import (
    ClaimCondition,
    ClaimExpression,
    ClaimMapping,
    ClaimRules,
    ExtraMapping,
)
from oarlock.schema.cel.problems import CompileError

CLAIMS: dict[str, Any] = {
    "iss": "https://login.example.com",
    "sub": "ann",
    "email": "ann@example.com",
    "email_verified": True,
    "groups": ["devs", "ops"],
    "role": "admin",
    "roles": "a,b",
    "tenant": {"id": "t-1", "namespace": "shop", "example.com/plan": "gold"},
    "level": 5,
    "jti": "id-1",
    "nothing": None,
    "mixed": ["", "x", ""],
}


def by(expression: str) -> ClaimMapping:
    return ClaimMapping(expression=ClaimExpression(expression))


def must(expression: str, message: str = "") -> ClaimCondition:
    return ClaimCondition(ClaimExpression(expression, condition=True), message)


def user(rules: ClaimRules, **changed: Any) -> User:
    return rules.user({name: value for name, value in {**CLAIMS, **changed}.items() if value != "absent"})


def refused(rules: ClaimRules, **changed: Any) -> str:
    with pytest.raises(BadCredentials) as caught:
        user(rules, **changed)
    return str(caught.value)


SUB = ClaimMapping("sub")


def test_names_with_a_prefix() -> None:
    rules = ClaimRules(ClaimMapping("sub", "login:"), ClaimMapping("groups", "g:"), ClaimMapping("sub"))
    ann = user(rules)
    assert (ann.name, ann.uid, ann.groups) == ("login:ann", "ann", ("g:devs", "g:ops"))
    assert ann.extra == {"authentication.kubernetes.io/credential-id": ("JTI=id-1",)}


def test_groups_may_be_one_text_or_missing() -> None:
    assert user(ClaimRules(SUB, ClaimMapping("role", "r:"))).groups == ("r:admin",)
    assert user(ClaimRules(SUB, ClaimMapping("absent"))).groups == ()
    assert user(ClaimRules(SUB, ClaimMapping("groups")), groups=None).groups == ()
    for wrong in (5, {"a": 1}, ["a", 1]):
        assert "claim groups of the token is no text and no list" in refused(
            ClaimRules(SUB, ClaimMapping("groups")), groups=wrong
        )


@pytest.mark.parametrize("verified", [False, "true", 1, None])
def test_an_email_must_be_verified(verified: Any) -> None:
    rules = ClaimRules(ClaimMapping("email"))
    assert user(rules).name == "ann@example.com"
    assert user(rules, email_verified="absent").name == "ann@example.com"
    assert refused(rules, email_verified=verified) == "the token's email isn't verified"
    assert user(ClaimRules(SUB), email_verified=False).name == "ann"


def test_required_claims() -> None:
    rules = ClaimRules(SUB, required={"role": "admin"})
    assert user(rules).name == "ann"
    assert refused(rules, role="absent") == "the token has no claim role, which is required"
    for wrong in ("user", ["admin"], True, None):
        assert refused(rules, role=wrong) == "the claim role of the token has another value than is required"


@pytest.mark.parametrize(
    ("expression", "groups"),
    [
        ("claims.groups", ("devs", "ops")),
        ("claims.role", ("admin",)),
        ("claims.roles.split(',')", ("a", "b")),
        ("claims.groups.map(g, 'x:' + g)", ("x:devs", "x:ops")),
        ("claims.mixed", ("x",)),
        ("claims.nothing", ()),
        ("[]", ()),
        ("''", ()),
        ("claims.?absent.orValue('none')", ("none",)),
        ("has(claims.absent) ? claims.absent : claims.role", ("admin",)),
        ("claims.tenant.namespace", ("shop",)),
        ("claims.tenant.__namespace__", ("shop",)),
        ("claims.tenant.example__dot__com__slash__plan", ("gold",)),
        ("claims.tenant['example.com/plan']", ("gold",)),
        ("claims.level == 5 ? 'five' : 'other'", ("five",)),
        ("claims.level > 4.5 ? 'much' : 'little'", ("much",)),
    ],
)
def test_groups_by_an_expression(expression: str, groups: tuple[str, ...]) -> None:
    assert user(ClaimRules(SUB, by(expression))).groups == groups


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("claims.absent", "no such key: absent"),
        ("claims.level", "must return a string or a list of strings"),
        ("claims.tenant", "must return a string or a list of strings"),
        ("[1, 2]", "must return a string or a list of strings"),
        ("claims.level + claims.role", "no such overload"),
    ],
)
def test_an_expression_that_fails_lets_nobody_in(expression: str, why: str) -> None:
    assert why in refused(ClaimRules(SUB, by(expression)))


def test_names_and_ids_by_expressions() -> None:
    rules = ClaimRules(by("claims.tenant.id + ':' + claims.sub"), uid=by("claims.sub"))
    assert (user(rules).name, user(rules).uid) == ("t-1:ann", "ann")
    assert "must return a string" in refused(ClaimRules(by("claims.level")))
    assert "must return a string" in refused(ClaimRules(by("claims.nothing")))
    assert refused(ClaimRules(by("''"))) == "the token names no user"
    assert "must return a string" in refused(ClaimRules(SUB, uid=by("claims.groups")))


def test_extra_by_expressions() -> None:
    extra = [
        ExtraMapping("example.com/tenant", ClaimExpression("claims.tenant.id")),
        ExtraMapping("example.com/empty", ClaimExpression("claims.nothing")),
    ]
    found = user(ClaimRules(SUB, extra=extra)).extra
    assert found == {
        "authentication.kubernetes.io/credential-id": ("JTI=id-1",),
        "example.com/tenant": ("t-1",),
    }


def test_conditions_about_claims_and_about_the_user() -> None:
    rules = ClaimRules(SUB, conditions=[must("claims.level < 9.0"), must("claims.role == 'admin'", "admins only")])
    assert user(rules).name == "ann"
    assert refused(rules, level=10) == "validation expression 'claims.level < 9.0' failed"
    assert refused(rules, role="user") == "validation expression 'claims.role == 'admin'' failed: admins only"
    assert "no such key: level" in refused(rules, level="absent")
    about = ClaimExpression("!user.username.startsWith('system:')", variable="user", condition=True)
    rules = ClaimRules(SUB, user_conditions=[ClaimCondition(about, "that name is reserved")])
    assert user(rules).name == "ann"
    assert "that name is reserved" in refused(rules, sub="system:admin")


def test_conditions_see_the_whole_user() -> None:
    source = "user.uid == '' && user.groups.exists(g, g == 'ops') && user.extra.example__dot__com__slash__a[0] == 'x'"
    about = ClaimExpression(source, variable="user", condition=True)
    extra = [ExtraMapping("example.com/a", ClaimExpression("'x'"))]
    rules = ClaimRules(SUB, ClaimMapping("groups"), extra=extra, user_conditions=[ClaimCondition(about)])
    assert user(rules).name == "ann"


def test_an_expression_that_would_take_too_long_ends() -> None:
    many = list(range(2000))
    rules = ClaimRules(SUB, conditions=[must("claims.many.all(a, claims.many.all(b, claims.many.all(c, a < 1e9)))")])
    assert "cost limit exceeded" in refused(rules, many=many)


@pytest.mark.parametrize("source", ["claims.", "claims.sub +", "nobody.sub", "claims.sub.nonsense()", "("])
def test_an_expression_that_is_none_is_refused_when_it_is_read(source: str) -> None:
    with pytest.raises(CompileError):
        ClaimExpression(source)


@pytest.mark.parametrize("source", ["claims.sub", "'x'", "claims.level + 1.0"])
def test_a_condition_must_be_one(source: str) -> None:
    with pytest.raises(ValueError, match="must evaluate to bool"):
        ClaimExpression(source, condition=True)


def test_expressions_say_which_claims_they_read() -> None:
    assert ClaimExpression("claims.a + claims.?b.orValue('') + (has(claims.c) ? claims.d.e : '')").claims == {
        *("a", "b", "c", "d"),
    }
