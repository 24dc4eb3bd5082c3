"""`RemoteTokens`: asks somebody else whose a token is, with a TokenReview: a cluster, or a webhook.

Answers are remembered by the digest of the token, bounded in bytes, failures to answer never. The same token is asked
about once at a time. Nobody is let in by an answer that is late, missing or makes no sense.
Must not know: HTTP. See also: `tokens`; ``server.review_caller``, which sends. Source: k8s.io/apiserver
``plugin/pkg/authenticator/token/webhook``, ``authentication/token/cache``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from oarlock.meta.context import Clock, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo
from oarlock.net.futures import shared
from oarlock.policy.authn.authenticator import BadCredentials, Identity
from oarlock.policy.authn.tokens.bearer_tokens import TokenAnswer

TokenCaller = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends a TokenReview and returns the answer's tree. It has a deadline of its own, and raises when there is none."""

REFUSED_BYTES = 4 * 1024 * 1024
MOST_PENDING = 1000
"""How many tokens are asked about at a time; more are refused."""

LONGEST_TOKEN = 64 * 1024


@dataclass(frozen=True, slots=True)
class ReviewTimes:
    """How long answers are remembered, and how long one may take, in seconds."""

    accepted_s: float = 10.0
    refused_s: float = 10.0
    answer_s: float = 10.0


class RemoteTokens:
    """Identifies tokens by asking `ask`, in `version` of TokenReview. `audiences` are the server's own.

    `name` says in the log who was asked.
    """

    waits = True

    def __init__(
        self,
        name: str,
        ask: TokenCaller,
        clock: Clock,
        *,
        audiences: Sequence[str] = (),
        times: ReviewTimes | None = None,
        version: str = "v1",
    ) -> None:
        self._name = name
        self._ask = ask
        self._clock = clock
        self._audiences = tuple(audiences)
        self._times = times or ReviewTimes()
        self._api_version = f"authentication.k8s.io/{version}"
        self._pending: dict[bytes, asyncio.Task[Any]] = {}
        self.refused: Memo[bytes, tuple[str, float]] = Memo(REFUSED_BYTES, entry_bytes=300)

    async def identify(self, token: str, audiences: Sequence[str]) -> TokenAnswer | None:
        if len(token) > LONGEST_TOKEN:
            return None
        wanted = tuple(audiences)
        key = hashlib.sha256("\0".join((token, *wanted)).encode("utf-8", "surrogateescape")).digest()
        refused = self.refused.get(key)
        if refused is not None and refused[1] > self._clock.now():
            raise BadCredentials(refused[0])
        status = await self._status(key, token, wanted)
        now = self._clock.now()
        if status.get("authenticated") is not True:
            why = _text(status.get("error")) or f"{self._name} doesn't know the token"
            why = why.replace(token, "…")[:500]
            self.refused.put(key, (why, now + self._times.refused_s), len(why))
            raise BadCredentials(why)
        fitting = _fitting(wanted, status.get("audiences"), self._audiences)
        if wanted and not fitting:
            raise BadCredentials(f"{self._name} knows the token, but for other audiences")
        return TokenAnswer(Identity(_user(status.get("user")), fitting or None), now + self._times.accepted_s)

    async def _status(self, key: bytes, token: str, audiences: Sequence[str]) -> dict[str, Any]:
        """The status of the answer, of one question for all who ask at the same time."""
        task = self._pending.get(key)
        if task is None:
            if len(self._pending) >= MOST_PENDING:
                raise BadCredentials(f"{self._name} is being asked about {MOST_PENDING} tokens already")
            task = asyncio.get_running_loop().create_task(self._answer(token, audiences))
            self._pending[key] = task
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        tree = await shared(task)
        status = tree.get("status") if isinstance(tree, dict) else None
        if not isinstance(status, dict):
            raise ValueError(f"{self._name} answered with no TokenReview")
        return status

    async def _answer(self, token: str, audiences: Sequence[str]) -> Any:
        spec = {"token": token, **({"audiences": [*audiences]} if audiences else {})}
        async with asyncio.timeout(self._times.answer_s):
            return await self._ask({"apiVersion": self._api_version, "kind": "TokenReview", "spec": spec})


def _fitting(wanted: Sequence[str], answered: Any, own: Sequence[str]) -> tuple[str, ...]:
    """The audiences that were wanted and are the token's. Who names none knows of none, and means this server's."""
    given = answered if isinstance(answered, list) and answered else own
    return tuple(audience for audience in wanted if audience in given)


def _user(tree: Any) -> User:
    """The user of an answer. Raises ValueError when it makes no sense."""
    groups, extra = (tree.get("groups") or [], tree.get("extra") or {}) if isinstance(tree, dict) else ([], {})
    if not isinstance(tree, dict) or not _texts(groups) or not isinstance(extra, dict):
        raise ValueError("the user in the answer makes no sense")
    if not all(isinstance(key, str) and _texts(values) for key, values in extra.items()):
        raise ValueError("the user in the answer makes no sense")
    name, uid = tree.get("username"), tree.get("uid") or ""
    if not isinstance(name, str) or not name or not isinstance(uid, str):
        raise ValueError("the user in the answer has no name")
    return User(name, uid, tuple(groups), {key: tuple(values) for key, values in extra.items()})


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
