"""Cups, in the version they began in and in the one that came after it."""

from __future__ import annotations

from typing import Self

from oarlock import Model, Resource, Spoke


class CupSpec(Model):
    """What is wanted."""

    millilitres: int = 250
    handles: int = 1


class Cup(Resource, group="cups.example.com", version="v2"):
    """A cup."""

    spec: CupSpec = CupSpec()


class OldCupSpec(Model):
    """What was wanted."""

    size: int = 250
    mug: bool = True


class OldCup(Spoke[Cup], version="v1"):
    """A cup, as it was at first: with a handle or without."""

    spec: OldCupSpec = OldCupSpec()

    def to_hub(self) -> Cup:
        return Cup(metadata=self.metadata, spec=CupSpec(millilitres=self.spec.size, handles=int(self.spec.mug)))

    @classmethod
    def from_hub(cls, hub: Cup) -> Self:
        spec = OldCupSpec(size=hub.spec.millilitres, mug=hub.spec.handles > 0)
        return cls(metadata=hub.metadata, spec=spec)
