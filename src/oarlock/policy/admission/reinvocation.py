"""Reinvocation: what plugins change, others that have been asked before may want to see.

A plugin whose mutations are configured while the server runs is a `ReinvokedPlugin`. If one of these has changed the
object, the chain asks all its plugins once more, in order; of these, only what `Reinvocable` tells is asked again.
See also: `chain`. Source: k8s.io/apiserver ``admission/reinvocation.go``, ``policy/mutating/reinvocationcontext.go``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from oarlock.meta.json_trees import Tree
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import AdmissionRequest

__all__ = ["Mutating", "Reinvocable", "ReinvokedPlugin"]

K = TypeVar("K", bound=Hashable)


class Mutating(Protocol):
    """The mutation of one request by one plugin, which may be asked twice."""

    async def mutate(self, new: Tree | None, old: Tree | None, offload: Offload, *, again: bool) -> Tree | None:
        """As ``AdmissionPlugin.mutate``; `again` the second time, when `new` is what all plugins have made of it."""
        ...


class ReinvokedPlugin(ABC):
    """A base class of plugins that remember something between the two times that they are asked."""

    @abstractmethod
    def mutating(self, request: AdmissionRequest, offload: Offload) -> Mutating:
        """What mutates the object of a request."""

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        """Mutate once, where no chain asks again."""
        return await self.mutating(request, offload).mutate(new, old, offload, again=False)


class Reinvocable(Generic[K]):
    """What a plugin has asked about one request, by keys, and what of it must be asked again."""

    def __init__(self) -> None:
        self._before: set[K] = set()
        self._again: set[K] = set()
        self._output: Tree | None = None

    def begin(self, new: Tree | None, *, again: bool) -> None:
        """The plugin is asked; what others have made since the last time counts."""
        if again and new is not self._output and new != self._output:
            self.changed()

    def due(self, key: K, *, again: bool) -> bool:
        """Whether `key` is asked now."""
        return not again or key in self._again

    def asked(self, key: K) -> None:
        """`key` was asked, and wants to be asked again about later changes."""
        self._before.add(key)

    def changed(self) -> None:
        """The object was changed: all that were asked before must be asked again."""
        self._again |= self._before
        self._before.clear()

    def end(self, new: Tree | None) -> None:
        """The plugin has been asked."""
        self._output = new
