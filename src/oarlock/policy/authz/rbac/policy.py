"""`RoleBasedPolicy`: all roles and bindings, indexed by subject, and what they allow.

It is kept current object by object (`put_role`, `put_binding` …), each at the cost of what that object grants. Nothing
here waits, so a decision always sees one state of it, and the next decision after a change sees the change.
Must not know: where the objects come from, who asks. See also: `authorizer`, which remembers decisions; `grants`.
Source: k8s.io/kubernetes ``plugin/pkg/auth/authorizer/rbac``, ``pkg/registry/rbac/validation``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import Decision, Outcome
from oarlock.policy.authz.known_rules import AccessRule, KnownRules
from oarlock.policy.authz.rbac.grants import Grants, Place, Question, question
from oarlock.policy.authz.rbac.roles import AccessBinding, AccessRole, BoundSubject, RoleKey

__all__ = ["RoleBasedPolicy"]

FEW = 8
"""A subject with more bindings in one scope gets an index of their places."""

_Key = tuple[str, str]
"""The namespace (none for the cluster's) and name of a binding."""


class _Bound:
    """A binding as one of its subjects has it; `grants` is None if there is no such role."""

    __slots__ = ("binding", "grants", "subject")

    def __init__(self, binding: AccessBinding, subject: BoundSubject, grants: Grants | None) -> None:
        self.binding = binding
        self.subject = subject
        self.grants = grants


class _Holder:
    """The bindings of one subject in one namespace, or of the cluster.

    With more than `FEW`, `_by_place` says which of them have a rule about a place, so that a decision looks at those.
    """

    __slots__ = ("_by_place", "bound", "without_role")

    def __init__(self) -> None:
        self.bound: dict[_Key, _Bound] = {}
        self.without_role: dict[_Key, _Bound] = {}
        """Those of which the role doesn't exist."""
        self._by_place: dict[Place, dict[_Key, _Bound]] | None = None

    def put(self, key: _Key, bound: _Bound) -> None:
        self.remove(key)
        self.bound[key] = bound
        if bound.grants is None:
            self.without_role[key] = bound
        if self._by_place is not None:
            self._index(key, bound, self._by_place)
        elif len(self.bound) > FEW:
            self._by_place = {}
            for each, one in self.bound.items():
                self._index(each, one, self._by_place)

    def remove(self, key: _Key) -> None:
        before = self.bound.pop(key, None)
        self.without_role.pop(key, None)
        if before is None or self._by_place is None or before.grants is None:
            return
        for place in before.grants.places:
            at = self._by_place[place]
            del at[key]
            if not at:
                del self._by_place[place]

    @staticmethod
    def _index(key: _Key, bound: _Bound, by_place: dict[Place, dict[_Key, _Bound]]) -> None:
        for place in bound.grants.places if bound.grants is not None else ():
            by_place.setdefault(place, {})[key] = bound

    def about(self, asked: Question) -> Iterator[_Bound]:
        """The bindings that may allow it."""
        if self._by_place is None:
            yield from self.bound.values()
            return
        for place in asked.places:
            at = self._by_place.get(place)
            if at is not None:
                yield from at.values()


class RoleBasedPolicy:
    """Roles and bindings. `generation` grows with every change.

    `renew` is what to call before the next decision, because changes may have been missed; None if none were. Until
    it `is_loaded`, nobody can say what anybody may do.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.renew: Callable[[], None] | None = None
        self.is_loaded = True
        self._roles: dict[RoleKey, AccessRole] = {}
        self._grants: dict[RoleKey, Grants] = {}
        self._bindings: dict[_Key, AccessBinding] = {}
        self._bindings_of: dict[RoleKey, dict[_Key, None]] = {}
        self._holders: dict[str, dict[str, _Holder]] = {}
        """By namespace ("" for the cluster), then by the subject's key."""

    # Changes

    def put_role(self, role: AccessRole) -> None:
        """Add a role, or replace the one with the same key."""
        self.generation += 1
        self._roles[role.key] = role
        self._regrant(role.key, Grants(role.rules))

    def remove_role(self, key: RoleKey) -> None:
        self.generation += 1
        if self._roles.pop(key, None) is not None:
            self._regrant(key, None)

    def put_binding(self, binding: AccessBinding) -> None:
        """Add a binding, or replace the one with the same namespace and name."""
        key = (binding.namespace, binding.name)
        self.remove_binding(*key)
        self._bindings[key] = binding
        self._bindings_of.setdefault(binding.role, {})[key] = None
        self._bind(key, binding, self._grants.get(binding.role))

    def remove_binding(self, namespace: str, name: str) -> None:
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
        for subject in before.subjects:
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
        for one in (self._roles, self._grants, self._bindings, self._bindings_of, self._holders):
            one.clear()

    def _regrant(self, key: RoleKey, grants: Grants | None) -> None:
        if grants is None:
            self._grants.pop(key, None)
        else:
            self._grants[key] = grants
        for bound in self._bindings_of.get(key, ()):
            self._bind(bound, self._bindings[bound], grants)

    def _bind(self, key: _Key, binding: AccessBinding, grants: Grants | None) -> None:
        holders = self._holders.setdefault(binding.namespace, {})
        for subject in binding.subjects:
            holders.setdefault(subject.key, _Holder()).put(key, _Bound(binding, subject, grants))

    # Questions

    def decide(self, user: User, target: Target) -> Decision:
        """Whether `user` may do what `target` says."""
        asked = question(target)
        keys = _subject_keys(user)
        for holder in self._holders_of(keys, target.namespace if target.resource else ""):
            for bound in holder.about(asked):
                if bound.grants is not None and bound.grants.allow(asked):
                    return Decision(Outcome.ALLOW, bound.binding.reason(bound.subject))
        missing = self._missing(keys, target.namespace if target.resource else "")
        return Decision(Outcome.NO_OPINION, f"RBAC: {_listed(missing)}" if missing else "")

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
        found = tuple(rule for one in rules.values() for rule in one)
        return KnownRules(found, bool(missing), _listed(missing))

    def role_rules(self, key: RoleKey) -> tuple[AccessRule, ...] | None:
        """The rules of a role; None if there is no such role."""
        role = self._roles.get(key)
        return None if role is None else role.rules

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
        bound = (one for holder in self._holders_of(keys, namespace) for one in holder.without_role.values())
        return list(dict.fromkeys(one.binding.role.missing for one in bound))


def _subject_keys(user: User) -> tuple[str, ...]:
    return (f"u:{user.name}", *[f"g:{group}" for group in user.groups])


def _listed(missing: list[str]) -> str:
    return missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]" if missing else ""
