"""How long authentication takes: a service account's token, remembered and not, and a static one.

python benchmarks/authentication.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from service_account_kit import Accounts, signing_key  # (found by the line above)

from oarlock.meta.context import User
from oarlock.policy.authn.authenticator import Credentials, Union
from oarlock.policy.authn.token_file import TokenFile
from oarlock.policy.authn.tokens import BearerTokens

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


def main() -> None:
    accounts = Accounts(signing_key())
    union = Union([accounts.bearer])
    token = accounts.token()

    def again(n: int) -> Coroutine[Any, Any, Any]:
        return union.authenticate(Credentials({"authorization": "".join(("Bearer ", token))}, ()))

    def cold(n: int) -> Coroutine[Any, Any, Any]:
        return accounts.bearer.identify(token, accounts.bearer.audiences)

    static = Union([BearerTokens([TokenFile([("t", User("admin"))])], accounts.clock)])
    print(f"{microseconds(again, 20_000):.2f} us: a service account's token, remembered")
    print(f"{microseconds(cold, 2_000):.0f} us: the same, not remembered (RS256)")
    header = {"authorization": "Bearer t"}
    print(f"{microseconds(lambda n: static.authenticate(Credentials(header, ())), 20_000):.2f} us: a static token")


if __name__ == "__main__":
    main()
