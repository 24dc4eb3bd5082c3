"""`ControllerBase`: all that a `Controller` is but how it runs alone, so that what runs it can know it.

See also: `controller`, which users subclass.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, TypeVar

from oarlock.controllers.keys import ObjectKey, Result
from oarlock.controllers.watched import (
    ControllerOptions,
    Predicate,
    Watched,
    check_methods,
    check_options,
    given,
    kind_of,
    sequence,
)
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import refuse_unknown

if TYPE_CHECKING:
    from oarlock.client.client import Client
    from oarlock.client.clock import TimerClock
    from oarlock.client.informers.informer import Informer
    from oarlock.controllers.events import EventRecorder
    from oarlock.controllers.metrics import ControllerNumbers
    from oarlock.controllers.running.sources import Attached, Informers
from oarlock.meta.metrics import MetricFamily

T = TypeVar("T")


class ControllerNotRunning(RuntimeError):
    """The controller isn't running, so it has no client and no informer."""


class _ClockOfRun:
    """Not a property, so that a class of a user's own may have a `clock` that it was given."""

    def __get__(self, controller: ControllerBase[Any], owner: type) -> TimerClock:
        if controller.attached is None:
            raise _not_running(controller)
        return controller.attached.clock


class ControllerBase(Generic[T]):
    """See `Controller`."""

    clock = _ClockOfRun()
    """The clock of the run: the machine's, or a test's virtual one. Use its `sleep`, which takes no time in a test."""

    __kind__: ClassVar[Any] = None
    __options__: ClassVar[ControllerOptions] = ControllerOptions()

    attached: Attached | None = None
    """Set by what runs it."""

    def __init_subclass__(
        cls,
        *,
        of: Foreign[Any] | str | None = None,
        name: str = "",
        concurrency: int | None = None,
        timeout_s: float | None = None,
        resync_s: float | None = None,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        when: Predicate | None = None,
        owns: Sequence[Any] | None = None,
        watches: Sequence[Watched] | None = None,
        finalizer: str | None = None,
        initializer: str | None = None,
        lease: str | None = None,
        **unknown: Never,
    ) -> None:
        super().__init_subclass__()
        refuse_unknown(cls, unknown, ControllerBase)
        subject = f"class {cls.__name__}"
        keywords = {
            "concurrency": concurrency,
            "timeout_s": timeout_s,
            "resync_s": resync_s,
            "when": when,
            "owns": sequence(subject, "owns", owns),
            "watches": sequence(subject, "watches", watches),
            "finalizer": finalizer,
            "initializer": initializer,
            "lease": lease,
        }
        selectors = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector}
        inherited = cls.__options__
        options = replace(
            inherited,
            name=name or cls.__name__.lower(),
            selection=replace(inherited.selection, **given(selectors)),
            **given(keywords),
        )
        if options.initializer:
            options = replace(options, selection=replace(options.selection, include_uninitialized=True))
        check_options(subject, options)
        kind = kind_of(cls, ControllerBase, of)
        cls.__options__ = options
        cls.__kind__ = kind
        if kind is not None:
            check_methods(cls, ControllerBase, options)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Make the actual state match the desired state of the object `key`, which may no longer exist.

        Called for every existing object at the start and after each change, never twice at a time for a key. An
        exception is logged, and the key is retried after a back-off; a `TerminalError` isn't retried. Returns None, or
        a `Result` to be called again after a time.
        """
        raise AssertionError("a controller's class isn't defined without it")

    async def finalize(self, obj: T) -> Result | None:
        """Undo what was done for an object that is being deleted. `obj` is the object on the server now.

        Called instead of `reconcile`, until it returns None; then the finalizer is removed. It may be called again for
        what is already undone.
        """
        raise AssertionError("a controller with a finalizer isn't defined without it")

    async def initialize(self, obj: T) -> None:
        """Complete a new object in place before other clients see it, or reject it: raise `Denied`, or a field error.

        Called when all earlier initializers of the object have finished, and again after a conflict. Other exceptions
        are logged, and it is called again after a back-off, while the create waits.
        """
        raise AssertionError("a controller with an initializer isn't defined without it")

    @property
    def name(self) -> str:
        """The name in its metrics, log lines and events."""
        return self.__options__.name

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger(f"oarlock.controllers.{self.name}")

    @property
    def client(self) -> Client:
        """The client. Its writes raise `LeaderLost` when this process has lost the lease."""
        return self._attachment().client

    @property
    def informer(self) -> Informer[T]:
        """The objects of the controller's kind. Don't change them: they are shared."""
        informer: Informer[T] = self._attachment().informers[self.__kind__]
        return informer

    @property
    def informers(self) -> Informers:
        """The informers by kind: of its own kind, of the kinds that it owns, and of those that it watches."""
        return self._attachment().informers

    @property
    def events(self) -> EventRecorder:
        """Records Events about objects, as ``kubectl describe`` and ``kubectl events`` show them."""
        return self._attachment().events

    def metrics(self) -> Sequence[MetricFamily]:
        """Metrics of the controller's own, for ``/metrics``. Override it.

        Called in the event loop for each request of the page. An exception is logged.
        """
        return ()

    def needed_lease(self) -> str:
        """The lease that it has to hold on its server; empty if none."""
        return self.__options__.lease

    def numbers(self) -> Sequence[ControllerNumbers]:
        """Its counters, while it runs; servers show them on ``/metrics``."""
        return () if self.attached is None else (self.attached.numbers(),)

    def _attachment(self) -> Attached:
        if self.attached is None:
            raise _not_running(self)
        return self.attached


def _not_running(controller: ControllerBase[Any]) -> ControllerNotRunning:
    name = type(controller).__name__
    return ControllerNotRunning(f"{name} doesn't run: list it in APIServer(controllers=[…]), or oarlock run")
