"""`Attached`: what a controller has while it runs. See also: `controller`, `loop`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.controllers.events import EventRecorder
from oarlock.controllers.metrics import ControllerNumbers
from oarlock.controllers.watched import shown_kind
from oarlock.meta.dataclass import dataclass

__all__ = ["Attached", "Informers"]


class Informers(Mapping[Any, Informer[Any]]):
    """The informers of a controller by kind: that which it reconciles, those it owns and watches."""

    def __init__(self, informers: Mapping[Any, Informer[Any]]) -> None:
        self._informers = dict(informers)

    def __getitem__(self, kind: Any) -> Informer[Any]:
        informer: Informer[Any] | None = self._informers.get(kind)
        if informer is None:
            there = ", ".join(map(shown_kind, self._informers))
            raise KeyError(f"no informer of {kind!r}: name it in owns=[…] or watches=[…]; there is: {there}")
        return informer

    def __iter__(self) -> Iterator[Any]:
        return iter(self._informers)

    def __len__(self) -> int:
        return len(self._informers)


@dataclass(frozen=True, slots=True)
class Attached:
    """What one run of a controller gives it. `numbers` counts what it did."""

    client: Client
    informers: Informers
    events: EventRecorder
    numbers: Callable[[], ControllerNumbers]
