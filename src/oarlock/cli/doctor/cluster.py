"""`ClusterView` reads objects of a cluster by their paths; a `Finding` says what was found, and what to do about it.

Paths are used rather than discovery, which may be what is broken.
"""

from __future__ import annotations

from enum import Enum

from oarlock.client.client import Client
from oarlock.client.transport import TransportError
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree


class Missing(Exception):
    """There is no such object."""


class Unreadable(Exception):
    """The object can't be read; the text says why."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster, as `client` sees it."""

    client: Client

    async def read(self, path: str, **query: str) -> Tree:
        """The answer to a GET. Raises `Missing`, `Unreadable`."""
        try:
            tree = await self.client.request("GET", path, query=tuple(query.items()))
        except StatusError as error:
            if error.code == 404:
                raise Missing(path) from None
            raise Unreadable(error.message) from None
        except DecodeError as error:
            raise Unreadable(f"{path}: {error}") from None
        if not isinstance(tree, dict):
            raise Unreadable(f"{path}: the answer isn't an object")
        return tree

    async def items(self, path: str, **query: str) -> list[Tree]:
        """The items of a list. Raises `Missing`, `Unreadable`."""
        tree = await self.read(path, **query)
        return [item for item in tree.get("items") or [] if isinstance(item, dict)]

    async def status_of(self, path: str) -> tuple[int, str]:
        """The status and the text of the answer to a GET, whatever it is. Raises TransportError."""
        try:
            await self.client.request("GET", path)
        except StatusError as error:
            return error.code, error.message
        except DecodeError as error:
            return 200, str(error)
        return 200, ""

    async def may(self, user: str, **attributes: str) -> bool:
        """Whether `user` may do that. Raises `Unreadable`."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": _groups(user), "resourceAttributes": attributes},
        }
        try:
            answer = await self.client.request(
                "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review
            )
        except (StatusError, DecodeError, TransportError) as error:
            raise Unreadable(str(error)) from None
        status = answer.get("status") if isinstance(answer, dict) else None
        return bool(isinstance(status, dict) and status.get("allowed"))


def _groups(user: str) -> list[str]:
    """The groups of a service account."""
    namespace = user.split(":")[2]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


class FindingState(Enum):
    """`UNKNOWN` is for what can't be seen, because of rights or of the network."""

    FINE = "ok"
    UNKNOWN = "?"
    BAD = "BAD"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and how it is; for what is bad, `advice` says what to do."""

    state: FindingState
    subject: str
    text: str
    advice: str = ""


def fine(subject: str, text: str) -> Finding:
    return Finding(FindingState.FINE, subject, text)


def unknown(subject: str, text: str) -> Finding:
    return Finding(FindingState.UNKNOWN, subject, text)


def bad(subject: str, text: str, advice: str) -> Finding:
    return Finding(FindingState.BAD, subject, text, advice)
