"""Who asks for what: the facts of one request, passed as an argument to everything below.

A `Context` is frozen and holds no store, loop, authorizer or socket; its only mutable part is the
append-only `Notes` sink. The clock is a value handed in from above, so that tests run in virtual time.
Next: `errors` for what a request can be answered with besides success.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from oarlock.meta.kinds import GroupKind, GroupResource

__all__ = ["Clock", "Context", "Notes", "Target", "User"]


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; deadlines are measured on it."""
        ...


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as authentication found."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. `verb` is Kubernetes' (``get list watch create update patch delete deletecollection``).

    For a path outside every API group, `resource` is empty, `path` is the path and `verb` the lower-case HTTP method.
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

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)


class Notes:
    """What is said to the client besides the answer: warnings, and annotations for the audit log.

    Append-only. A recipe that runs again after a lost race takes a `mark` first and `rewind`s to it,
    so hooks that run twice don't repeat themselves. Repeated texts are kept once.
    """

    __slots__ = ("_annotations", "_warnings")

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._annotations: list[tuple[str, str]] = []

    def warn(self, text: str) -> None:
        """Send `text` to the client in a ``Warning: 299`` header; kubectl prints it."""
        if text not in self._warnings:
            self._warnings.append(text)

    def audit(self, key: str, value: str) -> None:
        """Annotate the audit event of this request."""
        self._annotations.append((key, value))

    def mark(self) -> tuple[int, int]:
        return len(self._warnings), len(self._annotations)

    def rewind(self, mark: tuple[int, int]) -> None:
        del self._warnings[mark[0] :]
        del self._annotations[mark[1] :]

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    @property
    def annotations(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._annotations)


class _StandingStill:
    """A clock for tests that don't ask for one."""

    def now(self) -> float:
        return 1_767_225_600.0

    def monotonic(self) -> float:
        return 0.0


_STILL = _StandingStill()


@dataclass(frozen=True, slots=True)
class Context:
    """The facts of one request. `deadline` is on the clock's monotonic scale, in seconds."""

    user: User
    target: Target
    clock: Clock
    options: Any = None
    dry_run: bool = False
    audit_id: str = ""
    deadline: float = float("inf")
    notes: Notes = field(default_factory=Notes)
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
        """The facts of a request that nobody made, to call a hook with in a test.

        It is a create of nothing in particular unless `target` says otherwise; `user` may be a name. Its clock stands
        still at the first second of 2026 unless one is given. What was said to the client is in ``notes.warnings``.
        """
        who = User(user) if isinstance(user, str) else user
        return cls(who, target or Target("create"), clock or _STILL, options, dry_run)

    def as_user(self, user: User) -> Context:
        """The same request made by somebody else."""
        return replace(self, user=user)

    def warn(self, text: str) -> None:
        """Shorthand for ``notes.warn``."""
        self.notes.warn(text)
