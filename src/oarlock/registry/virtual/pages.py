"""`Page`: the result of a `list` that pages in the user's own storage; and the continue tokens of virtual resources.

A token of the server names the object after which the next page begins; a token of the user is passed through.
Must not know: requests. See also: `virtual.resource`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest
from oarlock.meta.kinds import NamespacedName

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, from a `list` that takes `ListOptions`. The server keeps the order of its items.

    `continue_token` is a text of your own for the position of the next page, empty on the last page. `remaining` is the
    number of objects after this page, if known. All pages of a list should have the `resource_version` of the first.
    """

    items: Sequence[T]
    resource_version: str = ""
    continue_token: str = ""
    remaining: int | None = None


def place_token(place: NamespacedName) -> str:
    """The continue token of the page that begins after `place`."""
    return _written(place)


def own_token(text: str) -> str:
    """The user's token as clients see it; empty for none."""
    return _written({"own": text}) if text else ""


def read_token(token: str) -> NamespacedName | str:
    """The place in a token, or the user's own token. Raises BadRequest."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found: NamespacedName | dict[str, str] = msgspec.json.decode(raw, type=NamespacedName | dict[str, str])
    except (ValueError, msgspec.DecodeError) as error:
        raise BadRequest(f"invalid continue token: {error}") from None
    if isinstance(found, tuple):
        return found
    if "own" not in found:
        raise BadRequest("invalid continue token: it says nothing")
    return found["own"]


def _written(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")
