"""What the chain of filters costs per request, without serving, dispatch and metrics: µs of CPU.

python benchmarks/chain_overhead.py
"""

from __future__ import annotations

import time

from oarlock.endpoints.http import Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Peer, Target, User
from oarlock.policy.authn.authenticator import Union
from oarlock.policy.authn.tokens.bearer_tokens import BearerTokens
from oarlock.policy.authn.tokens.token_file import TokenFile
from oarlock.server.chain import ChainConfig, build

REQUESTS = 200_000
TARGET = Target("get", "wardle.example.com", "v1alpha1", "flunders", namespace="default", name="f1")
HEADERS = {
    "host": "127.0.0.1:6443",
    "user-agent": "kubectl/v1.34.0 (linux/amd64) kubernetes/abcdef0",
    "accept": "application/json",
    "accept-encoding": "gzip",
    "authorization": "Bearer peertoken",
}


class Now:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


async def nothing() -> bytes:
    return b""


async def dispatch(x: RequestState) -> Response:
    return Response(200, [("content-type", "application/json")], b"{}")


def resolve(x: RequestState) -> None:
    x.target = TARGET


def main() -> None:
    tokens = BearerTokens([TokenFile([("peertoken", User("admin", groups=("system:masters",)))])], Now())
    handle = build(ChainConfig(resolve, Union([tokens])), dispatch, Now())
    path = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders/f1"
    request = Request("GET", path, "", HEADERS, list(HEADERS.items()), Peer("127.0.0.1", 1), nothing, time.monotonic())

    def run(call: object, argument: object) -> float:
        began = time.process_time()
        for _ in range(REQUESTS):
            coroutine = call(argument)  # type: ignore[operator]
            try:
                coroutine.send(None)
            except StopIteration:
                pass
        return (time.process_time() - began) / REQUESTS * 1e6

    x = RequestState(request, Now())
    bare = min(run(dispatch, x) for _ in range(5))
    whole = min(run(handle, request) for _ in range(5))
    print(f"{whole - bare:.2f} µs per request for the chain (and {bare:.2f} for an empty dispatch)")


if __name__ == "__main__":
    main()
