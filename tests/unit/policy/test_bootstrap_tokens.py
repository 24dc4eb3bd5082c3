"""Bootstrap tokens: who they are, and everything that makes one of them nobody's."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from oarlock.meta.times import rfc3339
from oarlock.policy.authn.tokens.bearer_tokens import FOR_EVER, TokenAnswer
from oarlock.policy.authn.tokens.bootstrap_tokens import NAMESPACE, TYPE, BootstrapTokens
from oarlock.testing import VirtualClock

Tree = dict[str, Any]

ID, SECRET = "abcdef", "0123456789abcdef"
TOKEN = f"{ID}.{SECRET}"
AUDIENCE = "https://api.example.com"


class Secrets:
    """What is stored, by name."""

    def __init__(self, *secrets: Tree) -> None:
        self.by_name = {one["metadata"]["name"]: one for one in secrets}
        self.reads = 1

    def revision(self, resource: str, namespace: str, name: str) -> int:
        return self.reads if self.read(resource, namespace, name) is not None else 0

    def read(self, resource: str, namespace: str, name: str) -> Tree | None:
        return self.by_name.get(name) if (resource, namespace) == ("secrets", NAMESPACE) else None

    async def fresh(self) -> None: ...


def secret(name: str = f"bootstrap-token-{ID}", **values: str) -> Tree:
    told = {"token-id": ID, "token-secret": SECRET, "usage-bootstrap-authentication": "true", **values}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in told.items()}
    return {"metadata": {"name": name}, "type": TYPE, "data": data}


def identified(tree: Tree, token: str = TOKEN, audiences: Sequence[str] = (), clock: VirtualClock | None = None) -> Any:
    tokens = BootstrapTokens(Secrets(tree), (AUDIENCE,), clock or VirtualClock())
    return asyncio.run(tokens.identify(token, audiences))


def test_a_token_is_a_machine_that_joins() -> None:
    groups = "system:bootstrappers:b,system:bootstrappers:a"
    answer: TokenAnswer = identified(secret(**{"auth-extra-groups": groups}))
    assert answer.identity.user.name == f"system:bootstrap:{ID}"
    expected = ("system:bootstrappers:a", "system:bootstrappers:b", "system:bootstrappers")
    assert answer.identity.user.groups == expected
    assert answer.until == FOR_EVER


def test_an_answer_holds_until_the_secret_changes() -> None:
    secrets = Secrets(secret())
    answer = asyncio.run(BootstrapTokens(secrets, (), VirtualClock()).identify(TOKEN, ()))
    assert answer is not None
    assert answer.still()
    secrets.reads += 1
    assert not answer.still()


def without(key: str) -> Callable[[Tree], object]:
    return lambda tree: tree["data"].pop(key)


def with_value(key: str, value: str) -> Callable[[Tree], object]:
    return lambda tree: tree["data"].update({key: base64.b64encode(value.encode()).decode()})


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda tree: tree.update(type="Opaque"), id="of another type"),
        pytest.param(lambda tree: tree["metadata"].update(deletionTimestamp=rfc3339(0)), id="being deleted"),
        pytest.param(lambda tree: tree["metadata"].update(name="another"), id="under another name"),
        pytest.param(with_value("token-secret", SECRET[::-1]), id="another secret"),
        pytest.param(without("token-secret"), id="no secret"),
        pytest.param(lambda tree: tree["data"].update({"token-secret": "?"}), id="a secret that can't be read"),
        pytest.param(with_value("token-id", "fedcba"), id="another id"),
        pytest.param(without("token-id"), id="no id"),
        pytest.param(with_value("usage-bootstrap-authentication", "false"), id="for something else"),
        pytest.param(without("usage-bootstrap-authentication"), id="for nothing"),
        pytest.param(with_value("auth-extra-groups", "system:masters"), id="in a group of others"),
        pytest.param(with_value("auth-extra-groups", "system:bootstrappers:a,x"), id="in a group of others too"),
        pytest.param(with_value("expiration", "tomorrow"), id="until nobody knows when"),
    ],
)
def test_what_is_wrong_with_its_secret_makes_it_nobody(spoil: Callable[[Tree], object]) -> None:
    tree = secret()
    assert identified(tree) is not None
    spoil(tree)
    assert identified(tree) is None


@pytest.mark.parametrize(
    "token", ["", ".", ID, f"{ID}.", f"{TOKEN}x", f"x{TOKEN}", TOKEN.upper(), f"{ID}.{SECRET[:-1]}0"]
)
def test_another_text_is_no_token(token: str) -> None:
    assert identified(secret(), token) is None


def test_it_ends_when_its_secret_says() -> None:
    clock = VirtualClock()
    tree = secret(expiration=rfc3339(clock.now() + 60))
    answer = identified(tree, clock=clock)
    assert answer.until == clock.now() + 60
    clock.advance(59)
    assert identified(tree, clock=clock) is not None
    clock.advance(1)
    assert identified(tree, clock=clock) is None


def test_it_is_for_the_server_that_has_the_secret() -> None:
    assert identified(secret(), audiences=["https://elsewhere.example.com"]) is None
    assert identified(secret(), audiences=["https://elsewhere.example.com", AUDIENCE]).identity.audiences == (AUDIENCE,)
