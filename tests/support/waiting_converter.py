"""A converter that has to be waited for, as a webhook would be: slow, refusing now and then; it tells what it did."""

from __future__ import annotations

import asyncio
from typing import Any

from oarlock.meta.errors import BadRequest, ServiceUnavailable
from oarlock.registry.conversions import Converter

__all__ = ["FarAway"]

Tree = dict[str, Any]


class FarAway(Converter):
    """v1 says `colour` where all others say `hue`. It refuses objects whose names are in `refused`.

    While `open` is cleared nothing comes back; while `down` is set nobody is there. A batch takes the longer the
    smaller it is, so that what is asked for later would come earlier.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[int, str]] = []
        self.names: list[str] = []
        self.refused: set[str] = set()
        self.down = False
        self.open = asyncio.Event()
        self.open.set()

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        self.batches.append((len(trees), to_version))
        self.names += [tree["metadata"]["name"] for tree in trees]
        await asyncio.sleep(1 / len(trees))
        await self.open.wait()
        if self.down:
            raise ServiceUnavailable("nobody is there")
        for tree in trees:
            if tree["metadata"]["name"] in self.refused:
                raise BadRequest("no light")
        old, new = ("hue", "colour") if to_version == "v1" else ("colour", "hue")
        for tree in trees:
            spec = tree["spec"]
            if old in spec:
                spec[new] = spec.pop(old)
        return trees
