"""`DefaultServiceAccounts`: every namespace has a service account called ``default``.

Source: Kubernetes' service account controller.
"""

from __future__ import annotations

from oarlock.apps.kinds.core.objects import Namespace, ServiceAccount
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.watched import Watched
from oarlock.meta import errors
from oarlock.schema.types.shapes import ObjectMeta

DEFAULT = "default"


def _its_namespace(account: ServiceAccount) -> list[ObjectKey]:
    return [ObjectKey("", account.metadata.namespace)] if account.metadata.name == DEFAULT else []


class DefaultServiceAccounts(
    Controller[Namespace],
    name="default-service-accounts",
    watches=[Watched(ServiceAccount, to=_its_namespace)],
):
    """Creates a missing ``default`` account, also after it was deleted."""

    async def reconcile(self, key: ObjectKey) -> None:
        namespace = self.informer.get(key.name)
        if namespace is None or namespace.metadata.deletion_timestamp:
            return
        if self.informers[ServiceAccount].get(DEFAULT, key.name) is not None:
            return
        account = ServiceAccount(metadata=ObjectMeta(name=DEFAULT, namespace=key.name))
        try:
            await self.client.create(account)
        except errors.AlreadyExists:
            pass  # the informer is behind
        except (errors.NotFound, errors.Forbidden):
            pass  # the namespace is gone, or going
