"""The context of one request: user, target, deadline, clock.

A `Context` is an argument of everything below `endpoints`. It is frozen and holds no store, loop, authorizer or
socket; its only mutable part is the append-only `Notes`. The clock is passed in, so tests can run in virtual time.
See also: `errors` for the error responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupKind, GroupResource


@dataclass(frozen=True, slots=True)
class Peer:
    """The client's end of a connection.

    `certificate` is the client's certificate in DER; `chain` are further certificates it sent. TLS has checked only
    that the client holds the key: whom to trust is decided by authentication. `tls` is False without encryption.
    """

    address: str
    port: int
    certificate: bytes | None = None
    chain: tuple[bytes, ...] = ()
    tls: bool = False


class Clock(Protocol):
    """The source of time."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back. Deadlines use it."""
        ...


MOST_WARNINGS = 100
"""So many warnings are sent in one answer; Kubernetes sends 4 KiB of them."""


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """The resource or path that a request is about, as authorization and admission see it.

    `verb` is a Kubernetes verb (``get list watch create update patch delete deletecollection``).
    For a non-resource path, `resource` is empty, `path` is the path and `verb` is the lower-case HTTP method.
    `field_selector` and `label_selector` are those of a list, watch or deletecollection, as they were sent.
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    kind: str = ""
    path: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)


class Notes(Struct, eq=False):
    """Warnings for the client, and annotations for the audit event.

    Append-only. A write that is retried after a conflict takes a `mark` first and calls `rewind` with it, so hooks that
    run twice don't repeat themselves. A text that was added before isn't added again.
    """

    # tuples, as most requests have none: an empty one is no new object
    warnings: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    _detailed: tuple[str, ...] = ()

    def warn(self, text: str) -> None:
        """Send `text` to the client in a ``Warning: 299`` header, which kubectl prints."""
        if len(self.warnings) < MOST_WARNINGS and text not in self.warnings:
            self.warnings += (text,)

    def audit(self, key: str, value: str, *, detailed: bool = False) -> None:
        """Add an annotation to the audit event of this request; a `detailed` one only where the event has bodies."""
        self.annotations += ((key, value),)
        if detailed:
            self._detailed += (key,)

    def mark(self) -> tuple[int, int]:
        return len(self.warnings), len(self.annotations)

    def rewind(self, mark: tuple[int, int]) -> None:
        self.warnings = self.warnings[: mark[0]]
        self.annotations = self.annotations[: mark[1]]

    @property
    def brief_annotations(self) -> tuple[tuple[str, str], ...]:
        """The audit annotations that aren't detailed."""
        if not self._detailed:
            return self.annotations
        return tuple(pair for pair in self.annotations if pair[0] not in self._detailed)


class _StandingStill:
    """The default clock of `Context.for_test`: it doesn't advance."""

    def now(self) -> float:
        return 1_767_225_600.0

    def monotonic(self) -> float:
        return 0.0


_STILL = _StandingStill()


class Context(Struct, frozen=True):
    """The context of one request, for hooks and plugins.

    - `user`: who sends the request. `target`: what it is about.
    - `clock`: the time. `deadline` is in seconds of ``clock.monotonic()``.
    - `options`: the parsed query parameters of the request.
    - `dry_run`: nothing will be stored, so there may be no side effects.
    - `notes`: collects warnings to the client and annotations of the audit event.
    """

    user: User
    target: Target
    clock: Clock
    options: Any = None
    dry_run: bool = False
    audit_id: str = ""
    deadline: float = float("inf")
    notes: Notes = msgspec.field(default_factory=Notes)
    user_agent: str = ""

    @classmethod
    def for_test(
        cls,
        *,
        user: User | str = "tester",
        target: Target | None = None,
        clock: Clock | None = None,
        dry_run: bool = False,
        options: Any = None,
    ) -> Context:
        """A context for calling a hook in a unit test, without a request.

        The target is a create without a resource unless `target` is given; `user` may be a name. The clock stands still
        at 2026-01-01T00:00:00Z unless one is given. Warnings are collected in ``notes.warnings``.
        """
        who = User(user) if isinstance(user, str) else user
        return cls(who, target or Target("create"), clock or _STILL, options, dry_run)

    def as_user(self, user: User) -> Context:
        """A copy of this context with another user."""
        return msgspec.structs.replace(self, user=user)

    def warn(self, text: str) -> None:
        """Send a warning to the client (a ``Warning`` header, which kubectl prints)."""
        self.notes.warn(text)
