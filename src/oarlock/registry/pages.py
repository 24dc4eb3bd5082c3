"""`Page`: what a user's `list` returns when it pages in its own storage, and how both kinds of continue tokens look.

A token of the framework's says after which object the next page begins; one of the user's is carried as it is.
Must not know: requests. Next: `virtual_resource`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from oarlock.meta.errors import BadRequest

__all__ = ["Page", "Place", "own_token", "place_token", "read_token"]

T = TypeVar("T")

Place = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some objects of a list, in the order of the user's storage, from a `list` that is given `ListOptions`.

    `continue_token` says, in words of the user's own, where the next page begins; empty on the last. `remaining` is how
    many are left after this page, if known. All pages of a list should have the `resource_version` of the first.
    """

    items: Sequence[T]
    resource_version: str = ""
    continue_token: str = ""
    remaining: int | None = None


def place_token(place: Place) -> str:
    """The token of a page that begins after `place`."""
    return _written(place)


def own_token(text: str) -> str:
    """A token of the user's, as clients see it; empty for none."""
    return _written({"own": text}) if text else ""


def read_token(token: str) -> Place | str:
    """The place in a token, or the user's own text. Raises BadRequest."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found: Place | dict[str, str] = msgspec.json.decode(raw, type=Place | dict[str, str])
    except (ValueError, msgspec.DecodeError) as error:
        raise BadRequest(f"invalid continue token: {error}") from None
    if isinstance(found, tuple):
        return found
    if "own" not in found:
        raise BadRequest("invalid continue token: it says nothing")
    return found["own"]


def _written(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")
