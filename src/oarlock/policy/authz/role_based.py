"""`RoleBasedPolicy`: all roles and bindings, indexed by subject, and what they allow.

`RoleBasedAuthorizer` is its `Authorizer`, and remembers decisions until something changes. The policy is kept current
object by object (`put_role`, `put_binding` …), each at the cost of what that object grants. Nothing here waits, so a
decision always sees one state of it, and the next decision after a change sees the change. A change that takes long is
announced (`expect`) and made in steps (`putting_role` …): until it is there, what it is about allows nothing, and
nobody can be denied anything.
Must not know: where the objects come from, who asks. See also: `roles`.
Source: k8s.io/kubernetes ``plugin/pkg/auth/authorizer/rbac``, ``pkg/registry/rbac/validation``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from oarlock.meta.context import Target, User
from oarlock.meta.errors import ServiceUnavailable
from oarlock.meta.memo import Memo
from oarlock.policy.authz.authorizer import AccessRule, Authorizer, AuthorizerLabels, Decision, KnownRules, Outcome
from oarlock.policy.authz.roles import (
    AccessBinding,
    AccessRole,
    BoundSubject,
    Grants,
    Question,
    RoleKey,
    RuleScope,
    question,
)
from oarlock.storage.pacing import Pacer

FEW = 8
"""A subject with more bindings in one scope gets an index of their places."""
WIDE = 256
"""A role with rules about more places isn't in such an index: it is looked at each time."""
STEP = 256
"""Subjects, bindings or rules between two steps of a change."""

_BindingKey = tuple[str, str]
"""The namespace (none for the cluster's) and name of a binding."""

Changing = tuple[bool, str, str]
"""Whether it is a role, or a binding; its namespace and name."""

UNSETTLED = Decision(Outcome.NO_OPINION, "RBAC: roles or bindings are changing")
"""Nobody can say yet: a change that is expected may allow it."""


class _Bound:
    """A binding as one of its subjects has it; `grants` is None if there is no such role."""

    __slots__ = ("binding", "grants", "subject")

    def __init__(self, binding: AccessBinding, subject: BoundSubject, grants: Grants | None) -> None:
        self.binding = binding
        self.subject = subject
        self.grants = grants


class _Holder:
    """The bindings of one subject in one namespace, or of the cluster.

    With more than `FEW`, `_by_place` says which of them have a rule about a place, so that a decision looks at those,
    and at the `_wide` ones.
    """

    __slots__ = ("_by_place", "_wide", "bound", "without_role")

    def __init__(self) -> None:
        self.bound: dict[_BindingKey, _Bound] = {}
        self.without_role: dict[_BindingKey, _Bound] = {}
        """Those of which the role doesn't exist."""
        self._by_place: dict[RuleScope, dict[_BindingKey, _Bound]] | None = None
        self._wide: dict[_BindingKey, _Bound] = {}

    def put(self, key: _BindingKey, bound: _Bound) -> None:
        self.remove(key)
        self.bound[key] = bound
        if bound.grants is None:
            self.without_role[key] = bound
        if self._by_place is not None:
            self._index(key, bound, self._by_place)
        elif len(self.bound) > FEW:
            self._by_place = {}
            for known_key, known in self.bound.items():
                self._index(known_key, known, self._by_place)

    def remove(self, key: _BindingKey) -> None:
        before = self.bound.pop(key, None)
        self.without_role.pop(key, None)
        if before is None or self._by_place is None or before.grants is None:
            return
        if self._wide.pop(key, None) is not None:
            return
        for place in before.grants.places:
            at = self._by_place[place]
            del at[key]
            if not at:
                del self._by_place[place]

    def _index(self, key: _BindingKey, bound: _Bound, by_place: dict[RuleScope, dict[_BindingKey, _Bound]]) -> None:
        if bound.grants is not None and len(bound.grants.places) > WIDE:
            self._wide[key] = bound
            return
        for place in bound.grants.places if bound.grants is not None else ():
            by_place.setdefault(place, {})[key] = bound

    def about(self, requested: Question) -> Iterator[_Bound]:
        """The bindings that may allow it."""
        if self._by_place is None:
            yield from self.bound.values()
            return
        for place in requested.places:
            at = self._by_place.get(place)
            if at is not None:
                yield from at.values()
        yield from self._wide.values()


class RoleBasedPolicy:
    """Roles and bindings. `generation` grows with every change.

    `renew` is what to call before the next decision, because changes may have been missed; None if none were. Until
    it `is_loaded`, nobody can say what anybody may do. `announced` is the number of changes that were ever expected.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.renew: Callable[[], None] | None = None
        self.is_loaded = True
        self._roles: dict[RoleKey, AccessRole] = {}
        self._grants: dict[RoleKey, Grants] = {}
        self._bindings: dict[_BindingKey, AccessBinding] = {}
        self._bindings_of: dict[RoleKey, dict[_BindingKey, None]] = {}
        self._holders: dict[str, dict[str, _Holder]] = {}
        """By namespace ("" for the cluster), then by the subject's key."""
        self._expected: Counter[Changing] = Counter()
        self.announced = self._arrived = 0
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    # Changes

    def expect(self, what: Changing) -> None:
        """A role or binding is going to be put or removed, in steps. Each call is followed by one of `arrived`."""
        self.generation += 1
        self.announced += 1
        self._expected[what] += 1

    def arrived(self, what: Changing) -> None:
        """What was expected has been done: the changes arrive in the order in which they are announced."""
        self.generation += 1
        self._arrived += 1
        self._expected[what] -= 1
        if not self._expected[what]:
            del self._expected[what]
        self._wake()

    def has_arrived(self, number: int) -> bool:
        """Whether so many of the changes that were `announced` have arrived."""
        return self._arrived >= number or not self._expected

    def when_arrived(self, number: int, call: Callable[[], None]) -> None:
        """Call it once so many of the changes that were `announced` have arrived; the next one, if they have."""
        self._waiting.append((max(number, self._arrived + 1), call))
        self._wake()

    def _wake(self) -> None:
        ready = [call for number, call in self._waiting if number <= self._arrived or not self._expected]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > self._arrived and self._expected]
        for call in ready:
            call()

    def put_role(self, role: AccessRole) -> None:
        """Add a role, or replace the one with the same key."""
        _whole(self.putting_role(role, Grants(role.rules)))

    def putting_role(self, role: AccessRole, grants: Grants) -> Iterator[None]:
        """The same in steps; `grants` are those of its rules."""
        self.generation += 1
        self._roles[role.key] = role
        return self._regrant(role.key, grants)

    def remove_role(self, key: RoleKey) -> None:
        _whole(self.removing_role(key))

    def removing_role(self, key: RoleKey) -> Iterator[None]:
        self.generation += 1
        return iter(()) if self._roles.pop(key, None) is None else self._regrant(key, None)

    def put_binding(self, binding: AccessBinding) -> None:
        """Add a binding, or replace the one with the same namespace and name."""
        _whole(self.putting_binding(binding))

    def putting_binding(self, binding: AccessBinding) -> Iterator[None]:
        key = (binding.namespace, binding.name)
        yield from self.removing_binding(*key)
        self._bindings[key] = binding
        self._bindings_of.setdefault(binding.role, {})[key] = None
        yield from self._bind(key, binding, self._grants.get(binding.role))

    def remove_binding(self, namespace: str, name: str) -> None:
        _whole(self.removing_binding(namespace, name))

    def removing_binding(self, namespace: str, name: str) -> Iterator[None]:
        self.generation += 1
        key = (namespace, name)
        before = self._bindings.pop(key, None)
        if before is None:
            return
        of = self._bindings_of[before.role]
        del of[key]
        if not of:
            del self._bindings_of[before.role]
        holders = self._holders.get(namespace, {})  # a binding of nobody is in none
        for at, subject in enumerate(before.subjects):
            if at % STEP == STEP - 1:
                yield
            holder = holders.get(subject.key)
            if holder is not None:
                holder.remove(key)
                if not holder.bound:
                    del holders[subject.key]
        if not holders:
            self._holders.pop(namespace, None)

    def clear(self) -> None:
        """Forget everything."""
        self.generation += 1
        for index in (self._roles, self._grants, self._bindings, self._bindings_of, self._holders, self._expected):
            index.clear()
        self._arrived = self.announced
        self._wake()

    def _regrant(self, key: RoleKey, grants: Grants | None) -> Iterator[None]:
        if grants is None:
            self._grants.pop(key, None)
        else:
            self._grants[key] = grants
        for bound in tuple(self._bindings_of.get(key, ())):
            yield from self._bind(bound, self._bindings[bound], grants)

    def _bind(self, key: _BindingKey, binding: AccessBinding, grants: Grants | None) -> Iterator[None]:
        holders = self._holders.setdefault(binding.namespace, {})
        for at, subject in enumerate(binding.subjects):
            if at % STEP == STEP - 1:
                yield
            holders.setdefault(subject.key, _Holder()).put(key, _Bound(binding, subject, grants))

    # Questions

    def decide(self, user: User, target: Target, announced: int | None = None) -> Decision:
        """Whether `user` may do what `target` says; `UNSETTLED` before what was `announced` has arrived."""
        requested = question(target)
        keys, unsettled = _subject_keys(user), self._arrived < (self.announced if announced is None else announced)
        for holder in self._holders_of(keys, target.namespace if target.resource else ""):
            for bound in holder.about(requested):
                if bound.grants is not None and bound.grants.allow(requested):
                    if not self._changes(bound.binding):
                        return Decision(Outcome.ALLOW, bound.binding.reason(bound.subject))
                    unsettled = True
        if unsettled:
            return UNSETTLED
        missing = self._missing(keys, target.namespace if target.resource else "")
        return Decision(Outcome.NO_OPINION, f"RBAC: {_listed(missing)}" if missing else "")

    def bound_groups(self, groups: Iterable[str], namespace: str) -> list[str]:
        """The `groups` that have any binding, everywhere or in `namespace`."""
        everywhere, here = self._holders.get("", {}), self._holders.get(namespace, {}) if namespace else {}
        return [group for group in groups if (key := f"g:{group}") in everywhere or key in here]

    def rules(self, user: User, namespace: str) -> KnownRules:
        """Every rule that `user` has in `namespace`."""
        keys = _subject_keys(user)
        rules: dict[RoleKey, tuple[AccessRule, ...]] = {}
        for holder in self._holders_of(keys, namespace):
            for bound in holder.bound.values():
                role = self._roles.get(bound.binding.role)
                if role is not None:
                    rules[role.key] = role.rules
        missing = self._missing(keys, namespace)
        found = tuple(rule for role_rules in rules.values() for rule in role_rules)
        return KnownRules(found, bool(missing), _listed(missing))

    def role_rules(self, key: RoleKey) -> tuple[AccessRule, ...] | None:
        """The rules of a role; None if there is no such role."""
        role = self._roles.get(key)
        return None if role is None else role.rules

    def _changes(self, binding: AccessBinding) -> bool:
        """Whether the binding or its role is going to be another one, or none."""
        expected = self._expected
        if not expected:
            return False
        return (True, *binding.role) in expected or (False, binding.namespace, binding.name) in expected

    def _holders_of(self, keys: Iterable[str], namespace: str) -> Iterator[_Holder]:
        for scope in ("", namespace) if namespace else ("",):
            holders = self._holders.get(scope)
            if holders is not None:
                for key in keys:
                    holder = holders.get(key)
                    if holder is not None:
                        yield holder

    def _missing(self, keys: Iterable[str], namespace: str) -> list[str]:
        """What is said of each role that is bound to the user and doesn't exist."""
        bound = (unbound for holder in self._holders_of(keys, namespace) for unbound in holder.without_role.values())
        return list(dict.fromkeys(unbound.binding.role.missing for unbound in bound))


def _whole(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def _subject_keys(user: User) -> tuple[str, ...]:
    return (f"u:{user.name}", *[f"g:{group}" for group in user.groups])


def _listed(missing: list[str]) -> str:
    return missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]" if missing else ""


_DecisionKey = tuple[str, tuple[str, ...], Target]

MANY_GROUPS = 512
"""A user of more groups is looked at in slices."""

REMEMBERED_BYTES = 8 * 1024 * 1024
_ENTRY_BYTES = 800


class RoleBasedAuthorizer(Authorizer):
    """Decides by roles and bindings. What it remembers is bounded by `limit_bytes`."""

    waits = False
    labels = AuthorizerLabels("RBAC", "rbac")

    def __init__(self, policy: RoleBasedPolicy, limit_bytes: int = REMEMBERED_BYTES) -> None:
        self.policy = policy
        self._limit_bytes = limit_bytes
        self._generation = -1
        self._decisions: Memo[_DecisionKey, Decision]
        self._forget()

    @property
    def remembered_bytes(self) -> int:
        """An estimate of what the remembered decisions take."""
        return self._decisions.held_bytes

    async def decide(self, user: User, target: Target) -> Decision:
        """Raises ServiceUnavailable while roles and bindings aren't loaded."""
        decision = self.authorize_cached(user, target)
        announced = self.policy.announced
        while decision is None:
            if not self.policy.has_arrived(announced):
                await self._arrived(announced)
            decision = self.policy.decide(await self._bound(user, target.namespace), target, announced)
            if decision is UNSETTLED:  # what would allow it is changing again
                await self._arrived(announced)
                decision = None
        return decision

    def authorize_cached(self, user: User, target: Target) -> Decision | None:
        """The decision; None if it has to wait, for a user of many groups or for a large change."""
        policy = self.policy
        if policy.renew is not None or not policy.is_loaded:
            self._renew()
        if len(user.groups) > MANY_GROUPS:
            return None
        if self._generation != self.policy.generation:
            self._forget()
        key = (user.name, user.groups, target)
        decision = self._decisions.get(key)
        if decision is None:
            decision = policy.decide(user, target)
            if decision is UNSETTLED:
                return None
            self._decisions.put(key, decision, _size(user, target))
        return decision

    async def rules(self, user: User, namespace: str) -> KnownRules:
        self._renew()
        if not self.policy.has_arrived(self.policy.announced):
            await self._arrived(self.policy.announced)
        return self.policy.rules(await self._bound(user, namespace), namespace)

    async def _bound(self, user: User, namespace: str) -> User:
        """The user without the groups that are bound to nothing, if they are many; found in slices."""
        groups = user.groups
        if len(groups) <= MANY_GROUPS:
            return user
        pacer, found = Pacer(), []
        for at in range(0, len(groups), MANY_GROUPS):
            found += self.policy.bound_groups(groups[at : at + MANY_GROUPS], namespace)
            await pacer.turn()
        return replace(user, groups=tuple(found))

    async def _arrived(self, announced: int) -> None:
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.policy.when_arrived(announced, partial(_settle, arrived))
        await arrived

    def _renew(self) -> None:
        policy = self.policy
        if policy.renew is not None:
            policy.renew()
        if not policy.is_loaded:
            raise ServiceUnavailable("roles and bindings aren't loaded yet, please try again", retry_after_s=1)

    def _forget(self) -> None:
        self._generation = self.policy.generation
        self._decisions = Memo(self._limit_bytes, entry_bytes=_ENTRY_BYTES, per_byte=4)


def _settle(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


def _size(user: User, target: Target) -> int:
    """The characters of a question: what a client can make long."""
    texts = (user.name, *user.groups, target.group, target.resource, target.subresource, target.namespace)
    more = (target.name, target.path, target.field_selector, target.label_selector)
    return 16 * len(user.groups) + sum(map(len, texts)) + sum(map(len, more))
