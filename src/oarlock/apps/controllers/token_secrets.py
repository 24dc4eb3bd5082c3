"""`TokenSecrets`: secrets for the tokens of service accounts get one, and go with their account.

Such a secret has the type ``kubernetes.io/service-account-token`` and names its account in an annotation. Deleting
either ends the token. kube-controller-manager's serviceaccount-token-controller. `TokenUseLabels` labels such secrets
with the day when their token was last used, as kube-apiserver does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oarlock.apps.kinds.core.objects import Secret, ServiceAccount
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.watched import Watched
from oarlock.meta.errors import Conflict, NotFound
from oarlock.policy.authn.tokens.service_accounts import BoundObject, SecretTokenUses
from oarlock.policy.authn.tokens.token_issuer import TokenIssuer

TYPE = "kubernetes.io/service-account-token"
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"


class TokenSecrets(
    Controller[Secret],
    name="serviceaccount-token-controller",
    field_selector=f"type={TYPE}",
    watches=[Watched(ServiceAccount, to="of_account")],
):
    """`issuer` signs the tokens; None where no tokens are issued. `ca` is what clients trust the server by, in PEM."""

    def __init__(self, issuer: Callable[[], TokenIssuer | None], ca: Callable[[], bytes | None]) -> None:
        self._issuer = issuer
        self._ca = ca

    def of_account(self, account: ServiceAccount) -> list[ObjectKey]:
        """The secrets that name the account."""
        namespace, name = account.metadata.namespace or "", account.metadata.name
        return [
            ObjectKey(namespace, secret.metadata.name)
            for secret in self.informer
            if secret.metadata.namespace == namespace and secret.metadata.annotations.get(NAME) == name
        ]

    async def reconcile(self, key: ObjectKey) -> None:
        secret, issuer = self.informer.get(key.name, key.namespace), self._issuer()
        if secret is None or issuer is None or secret.metadata.deletion_timestamp:
            return
        name, uid = secret.metadata.annotations.get(NAME, ""), secret.metadata.annotations.get(UID, "")
        try:
            account = await self.client.get(ServiceAccount, name, namespace=key.namespace) if name else None
        except NotFound:
            account = None
        if account is None or uid not in ("", account.metadata.uid):
            await self._remove(secret)
            return
        data = self._data(secret, account, issuer)
        if data != secret.data or uid != account.metadata.uid:
            owner = account.metadata.uid

            def fill(live: Secret) -> None:
                live.data = {**live.data, **data}
                live.metadata.annotations = {**live.metadata.annotations, UID: owner}

            try:
                await self.client.change(Secret, key.name, fill, namespace=key.namespace)
            except NotFound:
                pass  # it is gone

    def _data(self, secret: Secret, account: ServiceAccount, issuer: TokenIssuer) -> dict[str, bytes]:
        """What the secret is to have: what it has, if that is right."""
        namespace = secret.metadata.namespace or ""
        data = {**secret.data, "namespace": namespace.encode()}
        ca = self._ca()
        if ca is not None:
            data["ca.crt"] = ca
        if not data.get("token"):
            whose = BoundObject("serviceaccounts", namespace, account.metadata.name, account.metadata.uid)
            data["token"] = issuer.issue_for_secret(whose, secret.metadata.name).encode()
        return data

    async def _remove(self, secret: Secret) -> None:
        metadata = secret.metadata
        try:
            await self.client.delete(Secret, metadata.name, namespace=metadata.namespace or "", uid=metadata.uid)
        except (NotFound, Conflict):
            pass  # it is gone, or another


class TokenUseLabels:
    """Writes the label of each secret whose token is used, once a day. `uses` are those of this server."""

    called = "legacy-token-tracking"

    def __init__(self, uses: Callable[[], SecretTokenUses | None]) -> None:
        self._uses = uses

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Write until cancelled."""
        uses = self._uses()
        if uses is None:
            return
        added = asyncio.Event()
        uses.added = added.set
        while True:
            for secret, patch in tuple(uses.pending.items()):
                try:
                    await client.patch("v1/Secret", secret.name, patch, namespace=secret.namespace)
                except (NotFound, Conflict):
                    pass  # it is gone, or another
                uses.pending.pop(secret, None)
            await added.wait()
            added.clear()
