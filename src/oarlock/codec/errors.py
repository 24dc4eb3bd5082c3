"""What decoders raise. Next: `json`, `yaml`."""

from __future__ import annotations

__all__ = ["DecodeError"]


class DecodeError(ValueError):
    """The bytes are not what they should be; the message is Go's, as clients know it."""
