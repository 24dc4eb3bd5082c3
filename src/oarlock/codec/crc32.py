"""CRC-32 of joined data from those of its parts (RFC 1952 §8), which `zlib.crc32` can't do.

Appending n bytes multiplies a checksum by x^8n, modulo the polynomial of CRC-32: `shift` is that factor, made once for
a part, and `combined` takes some microseconds whatever the size. Polynomials have their highest coefficient in bit 0.
"""

from __future__ import annotations

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31


def combined(first: int, second: int, second_shift: int) -> int:
    """The checksum of two parts, from those of both and the `shift` of the second."""
    return _product(first, second_shift) ^ second


def shift(size: int) -> int:
    """The factor for appending `size` bytes."""
    factor, power = _ONE, _ONE >> 8  # x^8: one byte
    while size:
        if size & 1:
            factor = _product(factor, power)
        power = _product(power, power)
        size >>= 1
    return factor


def _product(left: int, right: int) -> int:
    product, bit = 0, _ONE
    while bit:
        if left & bit:
            product ^= right
        right = right >> 1 ^ _POLYNOMIAL if right & 1 else right >> 1
        bit >>= 1
    return product
