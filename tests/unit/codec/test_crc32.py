"""The checksum of joined data is that of its parts combined."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from oarlock.endpoints.lists import packed_lists


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_a_checksum_is_combined_from_those_of_two_parts(first: bytes, second: bytes) -> None:
    found = packed_lists.combined(zlib.crc32(first), zlib.crc32(second), packed_lists.shift(len(second)))
    assert found == zlib.crc32(first + second)


def test_large_parts_and_empty_ones() -> None:
    large = bytes(5_000_001)
    assert packed_lists.combined(zlib.crc32(b"a"), zlib.crc32(large), packed_lists.shift(len(large))) == zlib.crc32(
        b"a" + large
    )
    assert packed_lists.combined(zlib.crc32(b"a"), 0, packed_lists.shift(0)) == zlib.crc32(b"a")
