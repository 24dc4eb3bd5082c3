"""The settings of a client and the keywords of its methods: retries, warnings of the server, options of writes.

Must not know: how requests are sent. See also: `client`.
Source: k8s.io/apimachinery ``meta/v1`` CreateOptions, PatchOptions, DeleteOptions; client-go ``rest/with_retry.go`` and
``rest/warnings.go``; RFC 9110 §10.2.3, RFC 7234 §5.5, KEP-1693.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any, Literal, TypedDict

from oarlock.client.objects import pairs
from oarlock.client.transport import ClientRequest, ClientResponse, Transport, TransportError
from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.options import FieldValidation
from oarlock.meta.options_parse import QueryPairs
from oarlock.net.backoff import Backoff

_READS = frozenset(("GET", "HEAD"))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is retried, and the delays between the attempts.

    A request is sent at most `retries` times more, after `first_wait_s`, then twice that each time, up to
    `longest_wait_s` seconds. `sleep` waits for so many seconds.
    """

    retries: int = 10
    longest_wait_s: float = 30.0
    first_wait_s: float = 0.1
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def backoff(self) -> Backoff:
        """The delays, without jitter."""
        first_s = max(self.first_wait_s, 1e-6)
        return Backoff(first_s, max(first_s, self.longest_wait_s))


async def send(transport: Transport, request: ClientRequest, policy: RetryPolicy) -> ClientResponse:
    """Send a request, again if that is safe. Raises TransportError; any answer is returned, an error too.

    A write that the server may have received isn't repeated: it may have been done.
    """
    pauses = policy.backoff.pauses()
    for retries_left in range(policy.retries, -1, -1):
        try:
            answer = await transport.send(request)
        except TransportError as error:
            if not retries_left or (error.sent and request.method not in _READS):
                raise
            await policy.sleep(pauses.take())
        else:
            seconds = answer.headers.get("retry-after", "")
            if answer.status not in (429, 503) or not (seconds.isascii() and seconds.isdigit()) or not retries_left:
                return answer
            await answer.close()
            await policy.sleep(min(float(seconds[:9]) or pauses.take(), policy.longest_wait_s))
    raise AssertionError("the last attempt returns or raises")


MAX_TEXTS = 1_000
MAX_BYTES = 64 * 1024
log = logging.getLogger("oarlock.client")
_WARNING = re.compile(r'299 [^ "]+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(header: str) -> list[str]:
    """The texts of a ``Warning`` header, without quotes and escapes; those of other codes than 299 are left out."""
    return [_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(header[:MAX_BYTES])]


class WarningLog:
    """Logs each text once, as long as it is among the last thousand."""

    def __init__(self) -> None:
        self._logged: OrderedDict[str, None] = OrderedDict()

    def __call__(self, text: str) -> None:
        known = text in self._logged
        self._logged[text] = None
        self._logged.move_to_end(text)
        if len(self._logged) > MAX_TEXTS:
            self._logged.popitem(last=False)
        if not known:
            log.warning("the server warns: %s", text)


PatchType = Literal["merge", "json", "strategic"]
Propagation = Literal["", "Background", "Foreground", "Orphan"]


class SelectionKeywords(TypedDict, total=False):
    """Which objects are meant. Without a namespace those of all.

    With `include_uninitialized` also those that wait for their initializers, for who may ``initialize`` them.
    """

    namespace: str
    label_selector: str
    field_selector: str
    include_uninitialized: bool


class PagedKeywords(SelectionKeywords, total=False):
    """`SelectionKeywords`, and how many objects come in one answer; 0: all."""

    page_size: int


class WriteKeywords(TypedDict, total=False):
    """How a write is done. With `dry_run` everything is checked and nothing kept."""

    dry_run: bool
    field_manager: str
    field_validation: FieldValidation | None


class DeleteKeywords(TypedDict, total=False):
    """How an object is deleted: what becomes of its dependents, and whether only the one that was seen."""

    propagation: Propagation
    grace_period_s: int
    uid: str
    resource_version: str
    dry_run: bool


class ClientKeywords(TypedDict, total=False):
    """The fields of `ClientSettings`."""

    field_manager: str
    field_validation: FieldValidation | None
    timeout_s: float
    retries: RetryPolicy
    user: User | None
    user_agent: str
    on_warning: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a client.

    - `field_manager`: the manager of the client's writes in ``managedFields``.
    - `field_validation`: what the server does with unknown fields: ``Strict`` refuses them, ``Warn``, its default,
      sends a warning, ``Ignore`` does nothing.
    - `timeout_s`: for a request, in seconds. For watches, logs and connections it is the time until they begin.
    - `retries`: when a request is sent again.
    - `user`: the user to impersonate (``kubectl --as``).
    - `user_agent`: the ``User-Agent`` header.
    - `on_warning`: called with the text of each ``Warning`` header. By default each text is logged once.
    """

    field_manager: str = "oarlock"
    field_validation: FieldValidation | None = None
    timeout_s: float = 60.0
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    user: User | None = None
    user_agent: str = ""
    on_warning: Callable[[str], object] = field(default_factory=WarningLog)


def write_pairs(
    settings: ClientSettings,
    *,
    dry_run: bool = False,
    field_manager: str = "",
    field_validation: FieldValidation | None = None,
) -> QueryPairs:
    """The query of a write. The keywords are `WriteKeywords`."""
    return pairs(
        {
            "dryRun": "All" if dry_run else "",
            "fieldManager": field_manager or settings.field_manager,
            "fieldValidation": field_validation or settings.field_validation or "",
        }
    )


def deletion(
    *,
    propagation: Propagation = "",
    grace_period_s: int | None = None,
    uid: str = "",
    resource_version: str = "",
    dry_run: bool = False,
) -> dict[str, Any] | None:
    """The body of a delete; None when nothing is special about it. The keywords are `DeleteKeywords`."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    body = {
        "propagationPolicy": propagation,
        "gracePeriodSeconds": grace_period_s,
        "preconditions": {name: value for name, value in preconditions.items() if value},
        "dryRun": ["All"] if dry_run else [],
    }
    given = {name: value for name, value in body.items() if value or value == 0}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **given} if given else None
