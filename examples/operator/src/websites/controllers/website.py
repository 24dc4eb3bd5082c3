"""The controller of the kind Website: brings the world in line with what its objects say, and tells how they are."""

import html
from typing import Any

from oarlock import Condition, replace, set_condition
from oarlock.controllers import Controller, ObjectKey, Result, set_controller_reference, write_status

from ..api.v1.website import Website, WebsiteStatus


class WebsiteController(Controller[Website], owns=["v1/ConfigMap", "apps/v1/Deployment"]):
    """Called for each website when it or what it owns changes, when it failed before, and when the process starts."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        found = self.informer.get(key.name, key.namespace)
        if found is None:
            return None
        await self.client.apply(set_controller_reference(found, page(found)), force=True)
        deployment = await self.client.apply(set_controller_reference(found, servers(found)), force=True)
        ready = (deployment.get("status") or {}).get("readyReplicas", 0)
        wanted = found.spec.replicas
        condition = Condition(type="Ready", status="True", reason="Serving")
        if ready < wanted:
            message = f"{ready} of {wanted} servers are ready"
            condition = Condition(type="Ready", status="False", reason="Starting", message=message)
        before = found.status or WebsiteStatus()
        conditions = [*before.conditions]
        set_condition(conditions, condition, self.clock)
        seen = found.metadata.generation or 0
        status = replace(before, observed_generation=seen, ready_replicas=ready, conditions=conditions)
        await write_status(self.client, found, status)
        return None


def page(website: Website) -> dict[str, Any]:
    title = html.escape(website.spec.title)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{website.metadata.name}-page", "namespace": website.metadata.namespace},
        "data": {"index.html": f"<!doctype html><title>{title}</title><h1>{title}</h1>\n"},
    }


def servers(website: Website) -> dict[str, Any]:
    name = website.metadata.name
    labels = {"web.example.com/website": name}
    container = {
        "name": "server",
        "image": "nginx:1.27",
        "ports": [{"containerPort": 80}],
        "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}],
    }
    volume = {"name": "page", "configMap": {"name": f"{name}-page"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": website.metadata.namespace, "labels": labels},
        "spec": {
            "replicas": website.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": [volume]}},
        },
    }
