"""Lists in gzip are made of pieces that are kept, and always say what the same list says without gzip."""

from __future__ import annotations

import gzip

from walk_kit import BOATS, BOATS_V1, boat, fleet, made, path, walk

from oarlock.endpoints.http import Response, Unsent
from oarlock.endpoints.lists import packed_lists
from oarlock.endpoints.lists.packed_lists import KeptPieces, ListText, PackedLeaf, packed_list
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.state import Leaf

STORED = BOATS_V1
"""Boats in the version that the store has: those need no conversion."""
EVERYWHERE = path("boats", version="v1", namespace="")


async def same(api, path, most_share=1.0):
    """Both answers, compared; the one in gzip has at most this share of the bytes."""
    plain = await api.get(path)
    packed = await api.get(path, accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < most_share * len(plain.body)
    return packed.body


@walk
async def test_after_every_change_the_list_in_gzip_is_the_list():
    api, _ = fleet()
    async with api:
        for n in range(700):
            await made(api, BOATS, boat(f"n{n:04}", tags=[str(n) * 100]))
        first = await same(api, STORED, 0.5)
        assert await same(api, STORED) == first
        changed = (await api.get(f"{BOATS}/n0300")).json
        changed["metadata"]["labels"] = {"changed": "yes"}
        assert (await api.request("PUT", f"{BOATS}/n0300", changed)).status == 200
        assert await same(api, STORED) != first
        assert (await api.request("DELETE", f"{BOATS}/n0000")).status == 200
        await same(api, STORED)
        for n in range(300):
            await made(api, BOATS, boat(f"m{n:04}", tags=["x" * 100]))
        await same(api, STORED)
        await same(api, f"{STORED}?limit=600")
        await same(api, f"{STORED}?resourceVersion=0")
        await same(api, EVERYWHERE)
        await same(api, BOATS)


@walk
async def test_a_namespace_that_shares_leaves_with_others():
    api, _ = fleet()
    async with api:
        for namespace in ("a", "b", "c"):
            for n in range(400):
                path = BOATS.replace("/default/", f"/{namespace}/")
                await made(api, path, boat(f"n{n:04}", tags=[str(n) * 100]))
        for namespace in ("a", "b", "c"):
            await same(api, STORED.replace("/default/", f"/{namespace}/"))
        await same(api, EVERYWHERE)


@walk
async def test_large_objects_are_compressed_as_they_are_sent():
    api, _ = fleet()
    async with api:
        for n in range(12):
            await made(api, BOATS, boat(f"n{n}", tags=["t" * 120_000]))
        await same(api, STORED)


@walk
async def test_pieces_are_kept():
    api, _ = fleet()
    async with api:
        for n in range(700):
            await made(api, BOATS, boat(f"n{n:04}", tags=[str(n) * 100]))
        before = packed_lists._kept.bytes
        await same(api, STORED)
        assert packed_lists._kept.bytes > before


def test_the_oldest_pieces_are_dropped_beyond_the_bound():
    kept = KeptPieces(10_000)
    pieces = [PackedLeaf(b"text", bytes(2_000)) for _ in range(10)]
    for piece in pieces:
        kept.add(piece)
        assert kept.bytes <= 10_000
    assert [bool(piece.data) for piece in pieces] == [False] * 6 + [True] * 4
    del piece, pieces
    assert kept.bytes == 0


def test_a_piece_larger_than_all_is_not_kept():
    kept = KeptPieces(1_000)
    piece = PackedLeaf(b"text", bytes(2_000))
    kept.add(piece)
    assert not piece.data
    assert kept.bytes == 0


@walk
async def test_what_waits_for_clients_is_counted_until_it_is_sent():
    entries = [Entry("k", "", "k", 1, 1, b"x" * 900) for _ in range(200)]
    unsent, response = Unsent(), Response(200, [])
    assert await packed_list(unsent, response, ListText(b"[", b",", b"]"), [Leaf(entries)], 180_000)
    assert unsent.size > 0
    response.sent(False)
    assert unsent.size == 0
