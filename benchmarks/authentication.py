"""How long authentication takes: tokens of a service account and of an issuer elsewhere, remembered and not.

A static token for comparison.

python benchmarks/authentication.py
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from issuer_kit import Believed, ForeignIssuer, ForeignKey  # (found by the line above)
from service_account_kit import Accounts, signing_key  # (found by the line above)

from oarlock.meta.context import User
from oarlock.policy.authn.authenticator import Credentials, Union
from oarlock.policy.authn.tokens.bearer_tokens import BearerTokens
from oarlock.policy.authn.tokens.issued_tokens import ClaimCondition, ClaimExpression, ClaimMapping, ClaimRules
from oarlock.policy.authn.tokens.token_file import TokenFile

ROUNDS = 7


def microseconds(make: Callable[[int], Coroutine[Any, Any, Any]], times: int) -> float:
    """The best of several rounds of calls that never wait."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for n in range(times):
            try:
                make(n).send(None)
            except StopIteration:
                continue
            raise AssertionError("it waited")
        best = min(best, (time.perf_counter() - began) / times)
    return best * 1e6


def issued(rules: ClaimRules, how: str) -> None:
    """Prints the times for a token of an issuer whose keys are there."""
    key = ForeignKey()
    server = Believed(ForeignIssuer(key), rules)
    asyncio.run(server.keys.changed())
    token = key.signed(server.claims(groups=["devs", "ops"]))
    union = Union([server.bearer])
    again = microseconds(
        lambda n: union.authenticate(Credentials({"authorization": "".join(("Bearer ", token))}, ())), 20_000
    )
    print(f"{again:.2f} us: an issuer's token, mapped {how}, remembered")
    cold = microseconds(lambda n: server.bearer.identify(token, ()), 2_000)
    print(f"{cold:.0f} us: the same, not remembered (RS256)")


def main() -> None:
    accounts = Accounts(signing_key())
    union = Union([accounts.bearer])
    token = accounts.token()

    def again(n: int) -> Coroutine[Any, Any, Any]:
        return union.authenticate(Credentials({"authorization": "".join(("Bearer ", token))}, ()))

    def cold(n: int) -> Coroutine[Any, Any, Any]:
        return accounts.bearer.identify(token, accounts.bearer.audiences)

    issued(ClaimRules(ClaimMapping("sub", "login:"), ClaimMapping("groups", "login:")), "by names")
    by_expressions = ClaimRules(
        ClaimMapping(expression=ClaimExpression("'login:' + claims.sub")),
        ClaimMapping(expression=ClaimExpression("claims.groups.map(g, 'login:' + g)")),
        conditions=[ClaimCondition(ClaimExpression("claims.exp - claims.iat <= 86400.0", condition=True))],
    )
    issued(by_expressions, "by three expressions")
    static = Union([BearerTokens([TokenFile([("t", User("admin"))])], accounts.clock)])
    print(f"{microseconds(again, 20_000):.2f} us: a service account's token, remembered")
    print(f"{microseconds(cold, 2_000):.0f} us: the same, not remembered (RS256)")
    header = {"authorization": "Bearer t"}
    print(f"{microseconds(lambda n: static.authenticate(Credentials(header, ())), 20_000):.2f} us: a static token")


if __name__ == "__main__":
    main()
