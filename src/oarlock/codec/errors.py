"""The error that decoders raise. See also: `json`, `yaml`."""

from __future__ import annotations


class DecodeError(ValueError):
    """The bytes can't be decoded; the message has Go's wording."""
