"""ResourceClaims of pods: made from the templates that pods name, and told to the pods.

Source: k8s.io/kubernetes ``pkg/controller/resourceclaim``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import TreeController, namespace_of
from oarlock_cluster.shapes import controller_reference, is_controlled_by, is_terminating, labels_of, phase_of

__all__ = ["ResourceClaims"]

CLAIMS = "resource.k8s.io/v1/ResourceClaim"
TEMPLATES = "resource.k8s.io/v1/ResourceClaimTemplate"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
EVENTS_OF = "resource_claim"
AGAIN = Result(1.0, longest_s=300.0)


class ResourceClaims(
    TreeController[dict[str, Any]],
    of="v1/Pod",
    name="resourceclaim-controller",
    watches=[
        Watched(CLAIMS, to="_of_claim"),
        Watched(TEMPLATES, to="_of_template"),
    ],
):
    """Makes the claims that pods ask for by a template."""

    def _of_claim(self, claim: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        for owner in claim["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "Pod":
                yield claim["metadata"]["namespace"], owner["name"]

    def _of_template(self, template: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        metadata = template["metadata"]
        for pod in self._index(self._kind, "namespace", namespace_of, metadata["namespace"]):
            names = [claim.get("resourceClaimTemplateName") for claim in pod["spec"].get("resourceClaims") or ()]
            if metadata["name"] in names:
                yield metadata["namespace"], pod["metadata"]["name"]

    async def reconcile(self, key: ObjectKey) -> Result | None:
        pod = self.informer.get(key.name, key.namespace)
        wanted = [] if pod is None else pod["spec"].get("resourceClaims") or []
        if pod is None or not wanted or is_terminating(pod) or phase_of(pod) in ("Succeeded", "Failed"):
            return None
        statuses: list[Tree] = list((pod.get("status") or {}).get("resourceClaimStatuses") or ())
        known = {pod_claim["name"] for pod_claim in statuses}
        for pod_claim in wanted:
            if not pod_claim.get("resourceClaimTemplateName") or pod_claim["name"] in known:
                continue
            try:
                name = await self._claim_for(pod, pod_claim["name"], pod_claim["resourceClaimTemplateName"])
                problem = "" if name else _no_template(pod_claim["resourceClaimTemplateName"])
            except errors.StatusError as error:
                name, problem = "", error.message
            if problem:
                text = f"PodResourceClaim {pod_claim['name']}: {problem}"
                self.events.named(EVENTS_OF).warning(pod, "FailedResourceClaimCreation", text, action="")
                return AGAIN
            statuses.append({"name": pod_claim["name"], "resourceClaimName": name})
        if len(statuses) > len(known):
            status = {"resourceClaimStatuses": statuses}
            await self._patch(
                self._kind, pod, {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}, "status"
            )
        return None

    async def _claim_for(self, pod: ReadOnlyTree, name: str, template_name: str) -> str:
        """The name of the claim of a pod, which is made if it isn't there; empty without its template.

        Raises StatusError.
        """
        namespace = pod["metadata"]["namespace"]
        for claim in self._owned(CLAIMS, pod):
            if (claim["metadata"].get("annotations") or {}).get(POD_CLAIM) == name and is_controlled_by(claim, pod):
                return str(claim["metadata"]["name"])
        template = self.informers[TEMPLATES].get(template_name, namespace)
        if template is None:
            return ""
        given = template["spec"].get("metadata") or {}
        owner = controller_reference({"apiVersion": "v1", "kind": "Pod", **pod})
        del owner["blockOwnerDeletion"]
        metadata: Tree = {
            "generateName": f"{pod['metadata']['name']}-{name}-",
            "namespace": namespace,
            "labels": labels_of(template["spec"]),
            "annotations": {**(given.get("annotations") or {}), POD_CLAIM: name},
            "ownerReferences": [owner],
        }
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        made: Tree = await self.client.create({**kind, "metadata": metadata, "spec": template["spec"]["spec"]})
        return str(made["metadata"]["name"])


def _no_template(name: str) -> str:
    return f'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
