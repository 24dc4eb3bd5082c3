"""``authentication.k8s.io``: reviews of who somebody is, and requests for tokens. Nothing of it is kept.

Source: Kubernetes API reference, v1.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.apps.kinds.meta import Text
from oarlock.schema.types.markers import Atomic, NullIfAbsent, OmitEmpty
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "authentication.k8s.io"


class UserInfo(Model):
    """A user: name, UID, groups and extra attributes."""

    username: Text = ""
    uid: Text = ""
    groups: Annotated[list[str], OmitEmpty, Atomic] = []
    extra: Annotated[dict[str, list[str]], OmitEmpty] = {}


class TokenReviewSpec(Model):
    """The token to review, and the audiences it must be for."""

    token: Text = ""
    audiences: Annotated[list[str], OmitEmpty, Atomic] = []


class TokenReviewStatus(Model):
    """The user that the token belongs to, or why it is not valid."""

    authenticated: Annotated[bool, OmitEmpty] = False
    user: UserInfo = UserInfo()
    audiences: Annotated[list[str], OmitEmpty, Atomic] = []
    error: Text = ""


class TokenReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks whose a token is."""

    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class SelfSubjectReviewStatus(Model):
    """Who asks."""

    user_info: UserInfo = UserInfo()


class SelfSubjectReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks who the sender is."""

    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()


class BoundObjectReference(Model):
    """What a token is bound to."""

    kind: Text = ""
    api_version: Text = ""
    name: Text = ""
    uid: Text = ""


class TokenRequestSpec(Model):
    """The audiences, lifetime and bound object of a requested token."""

    audiences: Annotated[list[str], Atomic] = []
    expiration_seconds: int | None = 3600
    bound_object_ref: Annotated[BoundObjectReference | None, NullIfAbsent] = None


class TokenRequestStatus(Model):
    """The token."""

    token: str = ""
    expiration_timestamp: Annotated[datetime | None, NullIfAbsent] = None


class TokenRequest(Resource, group=GROUP, version="v1", name_rule="none", generation=False):
    """Asks for a token of a service account; the body of its subresource ``token``."""

    spec: TokenRequestSpec = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()
