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

__all__ = ["ControllerBase", "ControllerNotRunning"]

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
    """The clock that it runs by: a test's, or the machine's. What waits by it takes no time in a test."""

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
        """Make right what isn't, for the object called `key`, which may not exist any more.

        What it raises is logged, and the key comes again after a back-off; a `TerminalError` ends that.
        """
        raise AssertionError("a controller's class isn't defined without it")

    async def finalize(self, obj: T) -> Result | None:
        """Undo what was done for an object that is being deleted, as it is on the server now.

        Called until it returns None; then the finalizer is taken off. It may be called again for what is undone.
        """
        raise AssertionError("a controller with a finalizer isn't defined without it")

    async def initialize(self, obj: T) -> None:
        """Complete a new object, in place, before others see it, or refuse it: raise `Denied`, or a field error.

        Called when all initializers before this one have had their turn; again if another write was faster. What else
        it raises is logged, and it is called again after a back-off, while whoever creates the object waits.
        """
        raise AssertionError("a controller with an initializer isn't defined without it")

    @property
    def name(self) -> str:
        """The name of its metrics, log lines and events."""
        return self.__options__.name

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger(f"oarlock.controllers.{self.name}")

    @property
    def client(self) -> Client:
        """A client whose writes are refused when this process has lost the lead."""
        return self._attachment().client

    @property
    def informer(self) -> Informer[T]:
        """The objects of the controller's kind. Don't change them: they are shared."""
        informer: Informer[T] = self._attachment().informers[self.__kind__]
        return informer

    @property
    def informers(self) -> Informers:
        """The informers of its kind, of what it owns and of what it watches, by kind."""
        return self._attachment().informers

    @property
    def events(self) -> EventRecorder:
        """Tells people what happened to an object, as ``kubectl describe`` and ``kubectl events`` show it."""
        return self._attachment().events

    def metrics(self) -> Sequence[MetricFamily]:
        """What the controller counts itself, for ``/metrics``. Override it; called in the event loop each time that
        somebody asks for the page. What it raises is logged."""
        return ()

    def needed_lease(self) -> str:
        """The lease that it has to hold on the server that it works on; empty if none."""
        return self.__options__.lease

    def numbers(self) -> Sequence[ControllerNumbers]:
        """What it has counted, while it runs; servers have it on their ``/metrics``."""
        return () if self.attached is None else (self.attached.numbers(),)

    def _attachment(self) -> Attached:
        if self.attached is None:
            raise _not_running(self)
        return self.attached


def _not_running(controller: ControllerBase[Any]) -> ControllerNotRunning:
    name = type(controller).__name__
    return ControllerNotRunning(f"{name} doesn't run: list it in APIServer(controllers=[…]), or oarlock run")
