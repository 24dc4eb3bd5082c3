"""`AuditPolicy`: decides at which level a request is recorded. The first rule that matches decides.

Must not know: files, HTTP. Source: audit.k8s.io/v1 Policy; k8s.io/apiserver ``audit/policy``. See also: `policy_file`,
which reads one; `event`, what is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum, IntEnum

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo


class Level(IntEnum):
    """How much is recorded of a request; each level has what the one before has."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def word(self) -> str:
        """The level as Kubernetes spells it."""
        return _WORDS[self]


_WORDS = ("None", "Metadata", "Request", "RequestResponse")


class Stage(Enum):
    """When an event is recorded; `RESPONSE_STARTED` only of requests that go on, such as watches."""

    REQUEST_RECEIVED = "RequestReceived"
    RESPONSE_STARTED = "ResponseStarted"
    RESPONSE_COMPLETE = "ResponseComplete"
    PANIC = "Panic"

    def __init__(self, word: str) -> None:
        self.wire = word.encode()


@dataclass(frozen=True, slots=True)
class Recording:
    """What is recorded of one request."""

    level: Level
    omitted: frozenset[Stage] = frozenset()
    omit_managed_fields: bool = False
    head: bytes = field(default=b"", init=False, compare=False, repr=False)
    """What every event at this level begins with, up to the audit id."""

    def __post_init__(self) -> None:
        head = f'{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"{self.level.word}","auditID":'
        object.__setattr__(self, "head", head.encode())


@dataclass(frozen=True, slots=True)
class AuditedResources:
    """Resources of a group: ``pods``, ``pods/log``, ``pods/*``, ``*/scale``, ``*``; none names all of the group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()

    def matches(self, target: Target) -> bool:
        if self.group not in ("*", target.group):
            return False
        if not self.resources:
            return True
        if self.names and target.name not in self.names:
            return False
        below = target.subresource
        whole = f"{target.resource}/{below}" if below else target.resource
        for pattern in self.resources:
            if pattern in (whole, "*", f"{target.resource}/*") or (below and pattern == f"*/{below}"):
                return True
        return False


@dataclass(frozen=True, slots=True)
class AuditRule:
    """Matches a request that every part which isn't empty matches."""

    recording: Recording
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[AuditedResources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    def matches(self, user: User, target: Target) -> bool:
        if self.users and user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(user.groups):
            return False
        if self.verbs and target.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if not target.resource or (self.namespaces and target.namespace not in self.namespaces):
                return False
            return not self.resources or any(resource.matches(target) for resource in self.resources)
        if self.paths:
            return not target.resource and any(_covers(pattern, target.path) for pattern in self.paths)
        return True


def _covers(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


SECRET_RESOURCES = frozenset(
    {("", "secrets", ""), ("", "serviceaccounts", "token"), ("authentication.k8s.io", "tokenreviews", "")}
)
"""Group, resource and subresource of what holds credentials: it is recorded at `Level.METADATA` at most."""

DECISIONS_BYTES = 2 * 1024 * 1024
_FEW = 4
"""So many rules are faster asked than looked up."""


class AuditPolicy:
    """Rules in order. What no rule matches isn't recorded."""

    def __init__(self, rules: Sequence[AuditRule]) -> None:
        self.rules = tuple(rules)
        self._none = Recording(Level.NONE)
        self._decided: Memo[tuple[str, tuple[str, ...], Target], Recording] = Memo(
            DECISIONS_BYTES, entry_bytes=1024, per_byte=2
        )

    def decide(self, user: User, target: Target) -> Recording:
        """What is recorded of a request of `user`."""
        if len(self.rules) <= _FEW:
            return self._decide(user, target)
        key = (user.name, user.groups, target)
        recording = self._decided.get(key)
        if recording is None:
            recording = self._decide(user, target)
            texts = (user.name, *user.groups, target.namespace, target.name, target.resource, target.path)
            self._decided.put(key, recording, sum(map(len, texts)))
        return recording

    def _decide(self, user: User, target: Target) -> Recording:
        for rule in self.rules:
            if rule.matches(user, target):
                recording = rule.recording
                if recording.level > Level.METADATA and _holds_secrets(target):
                    return Recording(Level.METADATA, recording.omitted)
                return recording
        return self._none


def _holds_secrets(target: Target) -> bool:
    return (target.group, target.resource, target.subresource) in SECRET_RESOURCES
