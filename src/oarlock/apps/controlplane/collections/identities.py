"""What a control plane says of identities: whose token it is, who oneself is, and tokens of service accounts.

See also: ``kinds.authentication``; ``policy.authn``, which knows. Source: k8s.io/kubernetes
``pkg/registry/authentication``, ``pkg/registry/core/serviceaccount``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from oarlock.apps.kinds.authentication import (
    BoundObjectReference,
    SelfSubjectReview,
    SelfSubjectReviewStatus,
    TokenRequest,
    TokenRequestStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from oarlock.apps.kinds.core.objects import ServiceAccount
from oarlock.meta.context import Context, User
from oarlock.meta.errors import BadRequest, Conflict, InvalidObject, MethodNotAllowed, NotFound
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.kinds import GroupKind, GroupResource, GroupVersion
from oarlock.policy.authn.authenticator import StoredObjects
from oarlock.policy.authn.tokens.bearer_tokens import BadToken
from oarlock.policy.authn.tokens.service_accounts import BoundObject, TokenBinding
from oarlock.registry.hooks.collection import StoredCollection, VirtualCollection
from oarlock.registry.hooks.subresource import subresource
from oarlock.schema.types.shapes import ObjectMeta
from oarlock.server.assembly.identities import Identities

IdentitiesSource = Callable[[], Identities | None]
"""Who is let in, once the server runs with options."""

REQUEST = GroupKind("authentication.k8s.io", "TokenRequest")
DEFAULT_S = 3600
SHORTEST_S = 600
LONGEST_S = 1 << 32
_BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def _shown(user: User) -> UserInfo:
    extra = {key: [*values] for key, values in user.extra.items()}
    return UserInfo(username=user.name, uid=user.uid, groups=[*user.groups], extra=extra)


class SelfSubjectReviews(VirtualCollection[SelfSubjectReview]):
    """Answers with the user of the request."""

    async def create(self, new: SelfSubjectReview, ctx: Context, dry_run: bool) -> SelfSubjectReview:
        now = datetime.fromtimestamp(int(ctx.clock.now()), UTC)
        status = SelfSubjectReviewStatus(user_info=_shown(ctx.user))
        return SelfSubjectReview(metadata=ObjectMeta(creation_timestamp=now), status=status)


class TokenReviews(VirtualCollection[TokenReview]):
    """Says whose a bearer token is, as if a request had it."""

    def __init__(self, identities: IdentitiesSource) -> None:
        self._identities = identities

    async def create(self, new: TokenReview, ctx: Context, dry_run: bool) -> TokenReview:
        spec, status = new.spec, new.status
        if not spec.token:
            raise BadRequest("token is required for TokenReview in authentication")
        identities = self._identities()
        try:
            if identities is None:
                raise BadToken
            identity = await identities.review(spec.token, spec.audiences or identities.audiences)
        except BadToken as error:
            status.authenticated = False
            status.error = "invalid bearer token"
            if error.reasons:
                status.error = f"[{', '.join((status.error, *error.reasons))}]"
        else:
            audiences = [*(identity.audiences or ())]
            status = TokenReviewStatus(authenticated=True, user=_shown(identity.user), audiences=audiences)
        new.status = status
        return new


class ServiceAccounts(StoredCollection[ServiceAccount]):
    """Service accounts, and tokens for them."""

    def __init__(self, identities: IdentitiesSource) -> None:
        self._identities = identities

    @subresource("token")
    async def _token(self, parent: ServiceAccount, body: TokenRequest, ctx: Context) -> TokenRequest:
        identities = self._identities()
        if identities is None or identities.issuer is None:
            raise MethodNotAllowed(GroupResource("", "serviceaccounts/token"), "create")
        _check(body, parent)
        issuer = identities.issuer
        account = BoundObject("serviceaccounts", parent.metadata.namespace, parent.metadata.name, parent.metadata.uid)
        seconds = _seconds(body)
        if issuer.longest_s and seconds > issuer.longest_s:
            ctx.warn(f"requested expiration of {seconds} seconds shortened to {int(issuer.longest_s)} seconds")
            seconds = int(issuer.longest_s)
        body.spec.expiration_seconds = seconds
        binding = await _bound(account, body.spec.bound_object_ref, identities.objects)
        audiences = body.spec.audiences = body.spec.audiences or [*issuer.audiences]
        token, expires = issuer.issue(binding, audiences, seconds)
        ctx.notes.audit("authentication.kubernetes.io/issued-credential-id", f"JTI={binding.token_id}")
        body.status = TokenRequestStatus(token=token, expiration_timestamp=datetime.fromtimestamp(expires, UTC))
        body.metadata = ObjectMeta(
            name=parent.metadata.name,
            namespace=parent.metadata.namespace,
            uid=parent.metadata.uid,
            creation_timestamp=parent.metadata.creation_timestamp,
        )
        return body


def _check(body: TokenRequest, account: ServiceAccount) -> None:
    """Raises InvalidObject, BadRequest."""
    name = account.metadata.name
    if body.metadata.name not in ("", name):
        wrong = Invalid("metadata.name", body.metadata.name, "must match the service account name if specified")
        raise InvalidObject(REQUEST, name, [wrong])
    if body.metadata.namespace not in ("", account.metadata.namespace):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _seconds(body: TokenRequest) -> int:
    """The requested lifetime of a token, in seconds. Raises InvalidObject."""
    seconds, path = body.spec.expiration_seconds, "spec.expirationSeconds"
    seconds = DEFAULT_S if seconds is None else seconds
    why = ""
    if seconds < SHORTEST_S:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > LONGEST_S:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        raise InvalidObject(REQUEST, "", [Invalid(path, seconds, why)])
    return seconds


async def _bound(account: BoundObject, to: BoundObjectReference | None, objects: StoredObjects) -> TokenBinding:
    """What the token is to be bound to. Raises BadRequest, NotFound, Conflict."""
    if to is None:
        return TokenBinding((account,), str(uuid.uuid4()))
    group = GroupVersion.parse(to.api_version)
    resource = _BINDABLE.get(to.kind, "") if not group.group else ""
    if not resource:
        shown = f"{group.group}/{group.version}, Kind={to.kind}"
        raise BadRequest(f"cannot bind token to object of type {shown}")
    await objects.fresh()
    namespace = "" if resource == "nodes" else account.namespace
    tree = objects.read(resource, namespace, to.name)
    if tree is None:
        raise NotFound(GroupResource("", resource), to.name)
    uid = tree["metadata"]["uid"]
    if to.uid and to.uid != uid:
        raise Conflict(
            GroupResource("", to.kind),
            to.name,
            f"the UID in the bound object reference ({to.uid}) does not match the UID in record. The object might have "
            "been deleted and then recreated",
        )
    node = None
    if resource == "pods":
        node = _node_of(tree, account, objects)
    return TokenBinding((account, BoundObject(resource, namespace, to.name, uid)), str(uuid.uuid4()), node)


def _node_of(pod: Mapping[str, Any], account: BoundObject, objects: StoredObjects) -> tuple[str, str] | None:
    """Name and uid of the pod's node. Raises BadRequest for a pod of another account."""
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName") != account.name:
        name = f'"{account.name}"'
        raise BadRequest(
            f"cannot bind token for serviceaccount {name} to pod running with different serviceaccount name."
        )
    node = spec.get("nodeName")
    if not node:
        return None
    tree = objects.read("nodes", "", node)
    return node, tree["metadata"]["uid"] if tree is not None else ""
