"""`RootCaPublisher`: every namespace has the certificate that clients in it trust the server by, as a ConfigMap.

kube-controller-manager's root-ca-certificate-publisher-controller.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.apps.kinds.core.objects import ConfigMap, Namespace
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.watched import ObjectSelection, Watched
from oarlock.meta.errors import AlreadyExists, Forbidden, NotFound

ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


_PUBLISHED = ObjectSelection(field_selector=f"metadata.name={ROOT_CA}")


def _its_namespace(published: ConfigMap) -> list[ObjectKey]:
    return [ObjectKey("", published.metadata.namespace or "")]


class RootCaPublisher(
    Controller[Namespace],
    name="root-ca-certificate-publisher-controller",
    watches=[Watched(ConfigMap, to=_its_namespace, selection=_PUBLISHED)],
):
    """Creates the ConfigMap, and puts it right again. `ca` is the certificate in PEM; None where there is no TLS."""

    def __init__(self, ca: Callable[[], bytes | None]) -> None:
        self._ca = ca

    async def reconcile(self, key: ObjectKey) -> None:
        namespace, ca = self.informer.get(key.name), self._ca()
        if ca is None or namespace is None or namespace.metadata.deletion_timestamp:
            return
        data = {"ca.crt": ca.decode()}
        published = self.informers[ConfigMap].get(ROOT_CA, key.name)
        try:
            if published is None:
                metadata = {
                    "name": ROOT_CA,
                    "namespace": key.name,
                    "annotations": {"kubernetes.io/description": _DESCRIPTION},
                }
                await self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
            elif published.data != data:
                others = dict.fromkeys(published.data.keys() - data.keys())
                await self.client.patch(ConfigMap, ROOT_CA, {"data": {**others, **data}}, namespace=key.name)
        except (AlreadyExists, Forbidden, NotFound):
            pass  # the informer is behind, or the namespace is going; what changes comes again
