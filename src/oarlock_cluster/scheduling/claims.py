"""DynamicResources as a filter: a pod whose ResourceClaims aren't allocated runs nowhere. Nothing allocates here.

Source: kube-scheduler 1.36 ``dynamicresources``, in behaviour.
"""

from __future__ import annotations

from oarlock_cluster.scheduling.filters import FilterRefusal, NodeTest, PodRejected
from oarlock_cluster.scheduling.state import ClusterState, PodState

__all__ = ["claims_filter", "waits_for_claims"]

_NOT_ALLOCATED = FilterRefusal(("cannot allocate all claims",), final=True)


def _names(pod: PodState) -> dict[str, str]:
    """The names of a pod's claims, by the names that the pod has for them; empty for one that isn't made."""
    made = {status["name"]: status.get("resourceClaimName") for status in pod.status.get("resourceClaimStatuses") or ()}
    wanted = pod.spec.get("resourceClaims") or ()
    return {claim["name"]: claim.get("resourceClaimName") or made.get(claim["name"]) or "" for claim in wanted}


def waits_for_claims(pod: PodState) -> bool:
    """Whether a claim of the pod is still to be made from its template."""
    return not all(_names(pod).values())


def claims_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """Raises PodRejected if a claim isn't there, or asks for a class of devices that isn't."""
    open_claims = False
    for name in _names(pod).values():
        claim = state.resource_claims.get((pod.namespace, name))
        if claim is None:
            raise PodRejected(f'resourceclaim.resource.k8s.io "{name}" not found', of_nodes=True)
        if (claim.get("status") or {}).get("allocation"):
            continue
        open_claims = True
        for request in ((claim["spec"].get("devices") or {}).get("requests")) or ():
            for alternative in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
                kind = alternative.get("deviceClassName")
                if kind and kind not in state.device_classes:
                    text = f"request {request['name']}: device class {kind} does not exist"
                    raise PodRejected(text, of_nodes=True)
    return (lambda node: _NOT_ALLOCATED) if open_claims else None
