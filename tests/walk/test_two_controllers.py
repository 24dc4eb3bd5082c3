"""Two controllers that own different fields of one object write it a thousand times each, both at once.

Every write is checked by who made it: what it wrote is there, and so is the newest of what the other was told is
written. The store lets the others run before it compares revisions, so that nearly every write loses a race first.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from apply_kit import APPLY, MERGE, ONE, STRATEGIC, V1, barge, canal, entries, owned
from walk_kit import walk

from oarlock.testing.server import InMemory

pytestmark = pytest.mark.slow

ROUNDS = 1000


class Contended:
    """A store whose writers all read before one of them writes. Counts the writes that came too late."""

    def __init__(self, backend: Any) -> None:
        self.lost = 0
        real = backend.put

        async def put(key: str, value: bytes, *, expect: int, **rest: Any) -> Any:
            await asyncio.sleep(0)
            result = await real(key, value, expect=expect, **rest)
            self.lost += not result.ok
            return result

        backend.put = put


class Controller:
    """Writes numbers to one field of the object, one after the other. `written` is the newest that was acknowledged."""

    def __init__(self, api: InMemory, name: str, media: str, *path: str, where: str = ONE) -> None:
        self._api = api
        self._where = f"{where}?fieldManager={name}"
        self._media = media
        self._path = path
        self.name = name
        self.written = -1

    async def work(self, other: Controller) -> None:
        for number in range(ROUNDS):
            known = other.written
            answer = await self._api.patch(self._where, self._body(number), self._media)
            assert answer.status == 200, answer
            assert self.found(answer.json) == number
            assert other.found(answer.json) >= known
            self.written = number

    def found(self, tree: Any) -> int:
        """The number the object has; -1 before the first."""
        value = tree
        for step in self._path:
            value = (value or {}).get(step)
        return -1 if value is None else int(value)

    def _body(self, number: int) -> Any:
        body: Any = number if self._path[-1] == "replicas" else str(number)
        for step in reversed(self._path):
            body = {step: body}
        return {"apiVersion": V1, "kind": "Barge", **body} if self._media == APPLY else body


@pytest.mark.parametrize(
    ("media", "other_media"),
    [(APPLY, APPLY), (MERGE, MERGE), (STRATEGIC, MERGE), (APPLY, MERGE)],
    ids=["applies", "merges", "strategic merges and merges", "applies and merges"],
)
def test_no_update_is_lost(media: str, other_media: str) -> None:
    @walk
    async def run() -> None:
        api, _, backend = canal()
        async with api:
            assert (await api.post(ONE.rpartition("/")[0], barge({}))).status == 201
            store = Contended(backend)
            scaler = Controller(api, "scaler", media, "spec", "replicas")
            crew = Controller(api, "crew", other_media, "spec", "notes", "captain")
            await asyncio.gather(scaler.work(crew), crew.work(scaler))
            tree = (await api.get(ONE)).json
            assert (scaler.found(tree), crew.found(tree)) == (ROUNDS - 1, ROUNDS - 1)
            operations = ["Apply" if m == APPLY else "Update" for m in (media, other_media)]
            assert {("scaler", operations[0]), ("crew", operations[1])} <= set(entries(tree))
            assert owned(tree, "scaler", operations[0]) == {"spec.replicas"}
            assert "spec.replicas" not in owned(tree, "crew", operations[1])
            assert "spec.notes.captain" in owned(tree, "crew", operations[1])
            assert tree["metadata"]["generation"] == 2 * ROUNDS + 1
            assert store.lost > ROUNDS / 2

    run()
