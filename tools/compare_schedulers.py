"""Whether a pod fits, asked of kube-scheduler and of our own filters: random nodes and pods, one new pod a set.

    tools/compare_schedulers.py --binaries DIR [--sets 1000] [--seed 0] [--only NUMBER]

DIR has kube-apiserver and kube-scheduler; etcd is on the path. Both see the objects as kube-apiserver stores them.
Compared are whether the pod gets a node, whether pods are preempted for it, and the sentence of ``FailedScheduling``.
Prints each set that differs, and ends with 1 if one does. Everything listens on 127.0.0.1 and stops with the tool.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from real_control_plane import Api, Files, client_commands, free_port, running, server_command

from oarlock_cluster.scheduling.fit import Victims, find_nodes, find_victims
from oarlock_cluster.scheduling.state import ClusterState, NodeState, PodState, finished

Tree = dict[str, Any]
ADMIN = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
SPACES = {"red": {"team": "red"}, "blue": {"team": "blue"}, "bare": {}}
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
UNTOUCHED = ("ServiceAccount", "TaintNodesByCondition", "DefaultTolerationSeconds")
LONGEST_S = 20.0
SEEN_S = 0.06
"""How long the scheduler has to see nodes and pods before the new pod comes; a set that differs is asked again."""


@dataclass
class Case:
    """Nodes, the pods on them with their claims and volumes, and the new pod.

    `leaving` and `ended` are the places of pods that are being deleted, and that have run.
    """

    nodes: list[Tree] = field(default_factory=list)
    volumes: list[Tree] = field(default_factory=list)
    claims: list[Tree] = field(default_factory=list)
    pods: list[Tree] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    new: Tree = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What a scheduler says: whether it fits, why not, and whether others have to go for it."""

    fits: bool
    message: str = ""
    preempts: bool = False


class Making:
    """Random objects."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _maybe(self, share: float) -> bool:
        return self._random.random() < share

    def _some(self, of: list[Any], most: int = 2) -> list[Any]:
        return self._random.sample(of, self._random.randint(1, min(most, len(of))))

    def case(self) -> Case:
        case, pick = Case(), self._random
        case.nodes = [self._node(number) for number in range(pick.randint(1, 5))]
        if self._maybe(0.2):
            self._volumes(case)
        rich, features = self._maybe(0.5), pick.choice([0.0, 0.05, 0.15, 0.3])
        for number in range(pick.randint(0, 8)):
            pod = self._pod(f"old-{number}", features=0.15 if rich else 0.0, priorities=self._maybe(0.5))
            pod["spec"]["nodeName"] = pick.choice(case.nodes)["metadata"]["name"]
            case.pods.append(pod)
            if self._maybe(0.15):
                (case.leaving if self._maybe(0.5) else case.ended).append(number)
        case.new = self._pod("new", features=features, priorities=self._maybe(0.5))
        if case.claims and self._maybe(0.8):
            names = [claim["metadata"]["name"] for claim in case.claims] + (["absent"] if self._maybe(0.1) else [])
            for name in self._some(names):
                volume = {"name": name, "persistentVolumeClaim": {"claimName": name}}
                case.new["spec"].setdefault("volumes", []).append(volume)
            case.new["metadata"]["namespace"] = "red"
        return case

    def _node(self, number: int) -> Tree:
        pick, name = self._random, f"n{number}"
        labels = {HOST: name, "disk": pick.choice(["ssd", "hdd"]), "generation": str(pick.randint(1, 9))}
        if self._maybe(0.85):
            labels[ZONE] = pick.choice(["z0", "z1", "z2"])
        capacity = {"cpu": pick.choice(["1", "2", "1500m"]), "memory": pick.choice(["1Gi", "2Gi"])}
        capacity["pods"] = pick.choice(["2", "4", "110"])
        if self._maybe(0.4):
            capacity["example.com/gpu"] = pick.choice(["1", "2"])
        if self._maybe(0.5):
            capacity["ephemeral-storage"] = pick.choice(["1Gi", "8Gi"])
        spec: Tree = {"unschedulable": True} if self._maybe(0.08) else {}
        effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
        if self._maybe(0.3):
            spec["taints"] = [
                {"key": key, "value": pick.choice(["a", "b"]), "effect": pick.choice(effects)}
                for key in self._some(["dedicated", "noisy"])
            ]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"capacity": capacity, "allocatable": capacity},
        }

    def _volumes(self, case: Case) -> None:
        pick = self._random
        for number in range(pick.randint(1, 2)):
            name = f"data-{number}"
            mode = pick.choice(["ReadWriteOnce", "ReadWriteOncePod"])
            spec: Tree = {
                "accessModes": [mode],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/data"},
                "claimRef": {"namespace": "red", "name": name},
                "storageClassName": "none",
            }
            labels = {ZONE: pick.choice(["z0", "z1", "z0__z1"])} if self._maybe(0.5) else {}
            if self._maybe(0.5):
                expression = {"key": "disk", "operator": "In", "values": [pick.choice(["ssd", "hdd"])]}
                spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
            metadata: Tree = {"name": name, "labels": labels}
            case.volumes.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})
            done = {"pv.kubernetes.io/bind-completed": "yes"} if self._maybe(0.85) else {}
            claim: Tree = {
                "accessModes": [mode],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "none",
                **({"volumeName": name} if done else {}),
            }
            metadata = {"name": name, "namespace": "red", "annotations": done}
            case.claims.append(
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
            )

    def _pod(self, name: str, *, features: float, priorities: bool) -> Tree:
        pick = self._random
        labels = {"app": pick.choice(["web", "db"]), "tier": pick.choice(["front", "back"])}
        containers = [self._container(f"c{number}", features) for number in range(pick.randint(1, 2))]
        spec: Tree = {"containers": containers}
        if self._maybe(features):
            spec["runtimeClassName"] = "heavy"
        if self._maybe(features):
            spec["initContainers"] = [self._container("init", 0.0)]
            if self._maybe(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if self._maybe(features):
            spec["nodeSelector"] = pick.choice([{"disk": "ssd"}, {ZONE: "z1"}, {HOST: "n0"}])
        if self._maybe(features * 1.5):
            spec["tolerations"] = [self._toleration() for _ in range(pick.randint(1, 2))]
        if self._maybe(features):
            spec["topologySpreadConstraints"] = [
                self._spread(key) for key in self._some([ZONE, HOST, "disk"]) if key is not None
            ]
        affinity = self._affinity(features)
        if affinity:
            spec["affinity"] = affinity
        if priorities:
            spec["priorityClassName"] = pick.choice(["low", "high", "polite"])
        if self._maybe(features / 3):
            spec["resources"] = {"requests": {"cpu": pick.choice(["100m", "900m"])}}
        metadata = {"name": name, "namespace": pick.choice(list(SPACES)), "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _container(self, name: str, features: float) -> Tree:
        pick = self._random
        container: Tree = {"name": name, "image": "pause"}
        requests = {"cpu": pick.choice(["0", "100m", "400m", "1100m"])} if self._maybe(0.7) else {}
        if self._maybe(0.6):
            requests["memory"] = pick.choice(["100Mi", "700Mi", "1500Mi"])
        limits = {}
        if self._maybe(features / 2):
            requests["example.com/gpu"] = limits["example.com/gpu"] = pick.choice(["1", "2"])
        if self._maybe(features / 2):
            requests["ephemeral-storage"] = pick.choice(["500Mi", "2Gi"])
        container["resources"] = {"requests": requests, "limits": limits}
        if self._maybe(features / 2):
            port = {"containerPort": pick.choice([80, 81]), "protocol": pick.choice(["TCP", "UDP"])}
            port |= {"hostPort": port["containerPort"]}
            port |= {"hostIP": pick.choice(["127.0.0.1", "127.0.0.2"])} if self._maybe(0.4) else {}
            container["ports"] = [port]
        return container

    def _toleration(self) -> Tree:
        pick = self._random
        toleration: Tree = {"effect": pick.choice(["NoSchedule", "NoExecute"])} if self._maybe(0.5) else {}
        if self._maybe(0.15):
            return {**toleration, "operator": "Exists"}
        key = pick.choice(["dedicated", "noisy", "node.kubernetes.io/unschedulable"])
        if self._maybe(0.5):
            return {**toleration, "key": key, "operator": "Exists"}
        return {**toleration, "key": key, "operator": "Equal", "value": pick.choice(["a", "b"])}

    def _selector(self) -> Tree:
        pick = self._random
        key, values = pick.choice([("app", ["web", "db"]), ("tier", ["front", "back"])])
        if self._maybe(0.5):
            return {"matchLabels": {key: pick.choice(values)}}
        operator = pick.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        named = {"values": self._some(values)} if operator in ("In", "NotIn") else {}
        return {"matchExpressions": [{"key": key, "operator": operator, **named}]}

    def _spread(self, key: str) -> Tree:
        pick = self._random
        constraint: Tree = {
            "topologyKey": key,
            "maxSkew": pick.randint(1, 2),
            "whenUnsatisfiable": pick.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": self._selector(),
        }
        if self._maybe(0.3):
            constraint["nodeAffinityPolicy"] = pick.choice(["Honor", "Ignore"])
        if self._maybe(0.3):
            constraint["nodeTaintsPolicy"] = pick.choice(["Honor", "Ignore"])
        if self._maybe(0.2) and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = pick.randint(1, 3)
        if self._maybe(0.2):
            used = json.dumps(constraint["labelSelector"])
            constraint["matchLabelKeys"] = [label for label in ("app", "tier") if label not in used][:1]
        return constraint

    def _affinity(self, features: float) -> Tree:
        affinity: Tree = {}
        required, preferred = (f"{name}DuringSchedulingIgnoredDuringExecution" for name in ("required", "preferred"))
        if self._maybe(features):
            terms = [self._node_term() for _ in range(self._random.randint(1, 2))]
            affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
            if self._maybe(0.3):
                affinity["nodeAffinity"][preferred] = [{"weight": 5, "preference": self._node_term()}]
        for kind in ("podAffinity", "podAntiAffinity"):
            if self._maybe(features):
                affinity[kind] = {required: [self._pod_term() for _ in range(self._random.randint(1, 2))]}
        return affinity

    def _node_term(self) -> Tree:
        pick, term = self._random, dict[str, Any]()
        if self._maybe(0.2):
            term["matchFields"] = [
                {
                    "key": "metadata.name",
                    "operator": pick.choice(["In", "In", "NotIn"]),
                    "values": [f"n{pick.randint(0, 4)}"],
                }
            ]
        if not term or self._maybe(0.5):
            expressions: list[Tree] = [
                {"key": "disk", "operator": "In", "values": [pick.choice(["ssd", "hdd"])]},
                {"key": ZONE, "operator": "NotIn", "values": [pick.choice(["z0", "z1"])]},
                {"key": ZONE, "operator": pick.choice(["Exists", "DoesNotExist"])},
                {"key": "generation", "operator": pick.choice(["Gt", "Lt"]), "values": [str(pick.randint(1, 9))]},
            ]
            term["matchExpressions"] = self._some(expressions)
        return term

    def _pod_term(self) -> Tree:
        pick = self._random
        term: Tree = {"topologyKey": pick.choice([ZONE, HOST, "disk"]), "labelSelector": self._selector()}
        if self._maybe(0.3):
            term["namespaces"] = self._some(list(SPACES))
        if self._maybe(0.3):
            term["namespaceSelector"] = pick.choice([{}, {"matchLabels": {"team": "red"}}])
        if self._maybe(0.2):
            used = json.dumps(term["labelSelector"])
            term[pick.choice(["matchLabelKeys", "mismatchLabelKeys"])] = [
                label for label in ("app", "tier") if label not in used
            ][:1]
        return {name: value for name, value in term.items() if value != []}


class Requests:
    """Requests of the administrator over one connection."""

    def __init__(self, port: int, ca: str) -> None:
        context = ssl.create_default_context(cafile=ca)
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)

    def ask(self, method: str, path: str, body: Tree | None = None, type: str = "application/json") -> tuple[int, Tree]:
        headers = {**ADMIN, "Content-Type": type}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def create(self, path: str, body: Tree) -> Tree:
        code, tree = self.ask("POST", path, body)
        if code != 201:
            raise ValueError(tree.get("message"))
        return tree


def _in(namespace: str, resource: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{resource}"


class Real:
    """kube-apiserver with kube-scheduler, one set at a time."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        for name, labels in SPACES.items():
            requests.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        heavy = {"metadata": {"name": "heavy"}, "handler": "h", "overhead": {"podFixed": {"cpu": "300m"}}}
        requests.create("/apis/node.k8s.io/v1/runtimeclasses", heavy)
        for name, value, policy in (("low", 1, ""), ("high", 100, ""), ("polite", 100, "Never")):
            body: Tree = {"metadata": {"name": name}, "value": value}
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            requests.create(path, body | ({"preemptionPolicy": policy} if policy else {}))

    def clear(self) -> None:
        at_once = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for space in SPACES:
            self._requests.ask("DELETE", _in(space, "pods"), at_once)
        none = {"metadata": {"finalizers": None}}
        for path in (_in("red", "persistentvolumeclaims"), "/api/v1/persistentvolumes"):
            for each in self._requests.ask("GET", path)[1]["items"]:
                where = f"{path}/{each['metadata']['name']}"
                self._requests.ask("PATCH", where, none, "application/merge-patch+json")
                self._requests.ask("DELETE", where)
        self._requests.ask("DELETE", "/api/v1/nodes", at_once)

    def store(self, case: Case) -> Case:
        """The objects as they are stored. Raises ValueError for one that isn't valid."""
        create = self._requests.create
        stored = Case([create("/api/v1/nodes", node) for node in case.nodes])
        stored.volumes = [create("/api/v1/persistentvolumes", volume) for volume in case.volumes]
        stored.claims = [create(_in("red", "persistentvolumeclaims"), claim) for claim in case.claims]
        for number, pod in enumerate(case.pods):
            path = _in(pod["metadata"]["namespace"], "pods")
            made = create(path, pod)
            where = f"{path}/{pod['metadata']['name']}"
            if number in case.leaving:
                made = self._requests.ask("DELETE", where)[1]
            elif number in case.ended:
                body = {"status": {"phase": "Succeeded"}}
                made = self._requests.ask("PATCH", f"{where}/status", body, "application/merge-patch+json")[1]
            stored.pods.append(made)
        return stored

    def verdict(self, case: Case, stored: Case, wait_s: float) -> Verdict:
        time.sleep(wait_s)
        space = case.new["metadata"]["namespace"]
        stored.new = self._requests.create(_in(space, "pods"), case.new)
        end = time.monotonic() + LONGEST_S
        while time.monotonic() < end:
            pod = self._requests.ask("GET", f"{_in(space, 'pods')}/new")[1]
            status = pod["status"]
            for condition in status.get("conditions") or ():
                if condition["type"] == "PodScheduled":
                    fits = condition["status"] == "True"
                    return Verdict(fits, condition.get("message", ""), bool(status.get("nominatedNodeName")))
            time.sleep(0.01)
        raise TimeoutError("kube-scheduler says nothing")


def ours(case: Case) -> Verdict:
    """What our filters say."""
    state = ClusterState(namespaces={name: {**labels} for name, labels in SPACES.items()})
    for name in state.namespaces:
        state.namespaces[name] = {**SPACES[name], "kubernetes.io/metadata.name": name}
    pods = [PodState(pod) for pod in case.pods if not finished(pod)]
    for node in case.nodes:
        name = node["metadata"]["name"]
        state.nodes[name] = NodeState(node, [pod for pod in pods if pod.node == name])
    state.volumes = {volume["metadata"]["name"]: volume for volume in case.volumes}
    state.claims = {(claim["metadata"]["namespace"], claim["metadata"]["name"]): claim for claim in case.claims}
    pod = PodState(case.new)
    fit = find_nodes(pod, state)
    if fit.nodes:
        return Verdict(True)
    found = find_victims(pod, fit, state)
    preempts = isinstance(found, Victims)
    return Verdict(False, fit.message("" if isinstance(found, Victims) else found), preempts)


@contextmanager
def real(binaries: Path) -> Iterator[Real]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files, port = Files(directory), free_port()
        client, peer = f"http://127.0.0.1:{port + 1}", f"http://127.0.0.1:{port + 2}"
        etcd = ["etcd", f"--data-dir={files['etcd']}", f"--listen-client-urls={client}", "--unsafe-no-fsync"]
        etcd += [f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
        etcd += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
        stack.enter_context(running("etcd", etcd, directory / "etcd.log"))
        command = server_command("kube-apiserver", binaries, files, port)
        command.append(f"--disable-admission-plugins={','.join(UNTOUCHED)}")
        server = stack.enter_context(running("kube-apiserver", command, directory / "server.log"))
        url = f"https://127.0.0.1:{port}"
        Api(url, files).wait_until_ready(server)
        scheduler = [*client_commands(binaries, files, url)["kube-scheduler"], "--leader-elect=false"]
        scheduler += ["--kube-api-qps=500", "--kube-api-burst=1000"]
        stack.enter_context(running("kube-scheduler", scheduler, directory / "scheduler.log"))
        yield Real(Requests(port, files["ca.crt"]))


def compare(home: Real, number: int, seed: int) -> tuple[str, Verdict | None]:
    """How a set came out: what differs, and what the real scheduler says; None if the set isn't valid."""
    case = Making(seed * 1_000_000 + number).case()
    said = ""
    for wait_s in (SEEN_S, 1.0):
        home.clear()
        try:
            stored = home.store(case)
            theirs = home.verdict(case, stored, wait_s)
        except ValueError as error:
            return f"not valid: {error}", None
        mine = ours(stored)
        if theirs == mine:
            return "", theirs
        said = f"set {number}:\n  real: {theirs}\n  ours: {mine}"
    return said, theirs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this set alone, with its objects")
    options = parser.parse_args()
    counts, number = Counter[str](), -1
    with real(options.binaries) as home:
        while counts["sets"] < options.sets:
            number = number + 1 if options.only is None else options.only
            said, theirs = compare(home, number, options.seed)
            if theirs is None:
                counts["not valid"] += 1
                continue
            counts.update(
                ["sets", "that fit"] if theirs.fits else ["sets", "that preempt"] if theirs.preempts else ["sets"]
            )
            if said:
                counts["different"] += 1
                print(said, flush=True)
            if options.only is not None:
                print(json.dumps(vars(Making(options.seed * 1_000_000 + number).case()), indent=1))
                break
    print(dict(counts))
    return int(bool(counts["different"]))


if __name__ == "__main__":
    sys.exit(main())
