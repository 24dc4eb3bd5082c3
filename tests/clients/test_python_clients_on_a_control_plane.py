"""Python's clients on ``oarlock up``: kubernetes, kubernetes-asyncio, kr8s and lightkube, each with what it is for."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import kr8s
import pytest
from definitions import definition
from kr8s.asyncio.objects import ConfigMap, Namespace
from kubernetes import client as k8s
from kubernetes import config as k8s_config
from kubernetes import watch as k8s_watch
from kubernetes.dynamic import DynamicClient
from kubernetes_asyncio import client as k8s_asyncio
from kubernetes_asyncio import config as k8s_asyncio_config
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace as LightNamespace
from lightkube.resources.core_v1 import Service
from own_loop import in_a_loop
from server_process import ServerProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("sockets_collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning"),  # kr8s knows older ones
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_kubernetes(plane: ServerProcess, namespace: str, tmp_path: Path) -> None:
    configuration = k8s.Configuration()
    k8s_config.load_kube_config(str(plane.kubeconfig), client_configuration=configuration)
    with k8s.ApiClient(configuration) as client:
        core, rbac = k8s.CoreV1Api(client), k8s.RbacAuthorizationV1Api(client)
        core.create_namespace(k8s.V1Namespace(metadata=k8s.V1ObjectMeta(name=namespace)))
        metadata = k8s.V1ObjectMeta(name="sea")
        core.create_namespaced_config_map(namespace, k8s.V1ConfigMap(metadata=metadata, data={"a": "b"}))
        rbac.create_namespaced_role(namespace, k8s.V1Role(metadata=metadata, rules=[]))
        watch = k8s_watch.Watch()
        for event in watch.stream(core.list_namespaced_config_map, namespace, field_selector="metadata.name=sea"):
            assert (event["type"], event["object"].data) == ("ADDED", {"a": "b"})
            watch.stop()
        crds = k8s.ApiextensionsV1Api(client)
        quays = definition(f"{namespace[:30]}.example.com", "Quay", {"depth": {"type": "integer"}})
        crds.create_custom_resource_definition(quays)
        dynamic = DynamicClient(client, cache_file=str(tmp_path / "discovery"))
        found = dynamic.resources.get(api_version=f"{quays['spec']['group']}/v1", kind="Quay")
        made = found.create({"metadata": {"name": "q"}, "spec": {"depth": 3}}, namespace=namespace)
        assert made.spec.depth == 3
        assert k8s.VersionApi(client).get_code().minor == "36"
        core.delete_namespace(namespace)


@in_a_loop
async def test_kubernetes_asyncio(plane: ServerProcess, namespace: str) -> None:
    configuration = k8s_asyncio.Configuration()
    await k8s_asyncio_config.load_kube_config(str(plane.kubeconfig), client_configuration=configuration)
    async with k8s_asyncio.ApiClient(configuration) as client:
        core, apps = k8s_asyncio.CoreV1Api(client), k8s_asyncio.AppsV1Api(client)
        await core.create_namespace({"metadata": {"name": namespace}})
        labels = {"app": "web"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": pod, "replicas": 2}
        await apps.create_namespaced_deployment(namespace, {"metadata": {"name": "web"}, "spec": spec})
        scale = await apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 4}})
        assert scale.spec.replicas == 4
        found = await apps.list_namespaced_deployment(namespace)
        assert [one.spec.template.spec.restart_policy for one in found.items] == ["Always"]
        token = await core.create_namespaced_service_account_token("default", namespace, {"spec": {}})
        assert token.status.token.count(".") == 2


@in_a_loop
async def test_kr8s(plane: ServerProcess, namespace: str) -> None:
    api = await kr8s.asyncio.api(kubeconfig=str(plane.kubeconfig), namespace=namespace)
    try:
        await (await Namespace({"metadata": {"name": namespace}}, api=api)).create()
        one = await ConfigMap({"metadata": {"name": "sea", "namespace": namespace}, "data": {"a": "b"}}, api=api)
        await one.create()
        await one.patch({"data": {"a": "c"}})
        assert [found.data.a async for found in api.get("configmaps", "sea", namespace=namespace)] == ["c"]
        await one.delete()
        await one.wait("delete")
        assert "pods" in {one["name"] for one in await api.api_resources()}
    finally:
        gc.collect()  # kr8s leaves watches it has seen enough of to the garbage collector
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*left, return_exceptions=True)
        await api._session.aclose()  # and has no word for this


def test_lightkube(plane: ServerProcess, namespace: str) -> None:
    client = Client(KubeConfig.from_file(str(plane.kubeconfig)).get(), namespace=namespace, field_manager="tests")
    client.create(LightNamespace(metadata=ObjectMeta(name=namespace)))
    labels = {"app": "web"}
    pods = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="a", image="a")])
    )
    spec = DeploymentSpec(selector=LabelSelector(matchLabels=labels), template=pods, replicas=1)
    applied = Deployment(metadata=ObjectMeta(name="web", namespace=namespace), spec=spec)
    for replicas in (1, 2):
        spec.replicas = replicas
        found = client.apply(applied)
        assert found.spec is not None
        assert found.spec.replicas == replicas
    service = client.get(Service, "kubernetes", namespace="default")
    assert service.spec is not None
    assert service.spec.clusterIP == "10.0.0.1"
    assert [one.metadata.name for one in client.list(Deployment) if one.metadata is not None] == ["web"]
    client.delete(Deployment, "web")
    with pytest.raises(ApiError, match="not found"):
        client.get(Deployment, "web")
