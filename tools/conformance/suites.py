"""The suites of `make conformance`: what each compares, and how it is run.

A suite that needs something that isn't at hand raises `NotAtHand`. See also: ``run``, which keeps the results.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import recorded_exchanges  # noqa: E402 (found on the path above)
import recorded_plane  # noqa: E402

RECORDINGS = ROOT.parent / "shared" / "golden"
TOOLS = ROOT.parent / "shared" / "tools"
WITHOUT_COLLECTOR = "--controllers=*,-garbage-collector-controller"
LIMIT_S = 1800


class NotAtHand(Exception):
    """What a suite needs isn't on this machine."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many cases passed, of those that ran."""

    passed: int
    of: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Suite:
    """One row of the page. `run` is None for a suite that is run by hand; its result is in results.json."""

    name: str
    title: str
    about: str
    why_not: str
    run: Callable[[], Count] | None = None


def go_sample_server() -> Count:
    """Exchanges with sample-apiserver, sent to wardle."""
    if not recorded_exchanges.TOOL.exists():
        raise NotAtHand("the recordings")
    with tempfile.TemporaryDirectory() as folder:
        server = recorded_exchanges.MemoryServerProcess(Path(folder) / "server")
        replayed = recorded_exchanges.replay(server)
    return Count(len(replayed.exchanges) - len(replayed.failed), len(replayed.exchanges))


def kube_apiserver(recording: str, *options: str) -> Callable[[], Count]:
    """Exchanges of a recording of kube-apiserver, sent to `oarlock up` with these options."""

    def run() -> Count:
        path = RECORDINGS / f"{recording}.jsonl"
        if not path.exists():
            raise NotAtHand("the recordings")
        with (
            tempfile.TemporaryDirectory() as folder,
            recorded_plane.RecordedPlane(Path(folder) / "server", options) as server,
        ):
            failed = recorded_plane.replay(server, recording, limit_s=LIMIT_S)
        count = len(path.read_text().splitlines())
        print(f"{recording}: otherwise {sorted(failed)}", file=sys.stderr)
        return Count(count - len(failed), count)

    return run


def workloads() -> Count:
    """Steps recorded with kube-controller-manager, kube-scheduler and kwok, taken on `oarlock up --nodes 0`.

    Nothing served the metrics API there.
    """
    path = RECORDINGS / "workloads.jsonl"
    if not path.exists():
        raise NotAtHand("the recordings")
    with (
        tempfile.TemporaryDirectory() as folder,
        recorded_plane.RecordedPlane(Path(folder) / "server", ("--nodes", "0")) as server,
    ):
        command = [sys.executable, str(TOOLS / "workloads.py"), "replay", str(path), "--base", server.url, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    lines = done.stdout.splitlines()
    print(*(line for line in lines if line.startswith("FAIL")), sep="\n", file=sys.stderr)
    passed, _, of, *_ = lines[-1].split()
    return Count(int(passed), int(of))


def tests(*patterns: str) -> Callable[[], Count]:
    """The tests in these files. Those that need what isn't at hand are left out."""

    def run() -> Count:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            files = sorted(str(file) for pattern in patterns for file in (ROOT / "tests").glob(pattern))
            command = [sys.executable, "-m", "pytest", "-n", "2", f"--junitxml={report}", *files]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            if not report.exists():
                raise RuntimeError(done.stdout + done.stderr)
            suite = next(ET.parse(report).getroot().iter("testsuite"))
        ran, failed = int(suite.attrib["tests"]), int(suite.attrib["failures"]) + int(suite.attrib["errors"])
        skipped = int(suite.attrib["skipped"])
        if ran == skipped:
            raise NotAtHand("the programs of these tests")
        if failed:
            print(done.stdout[-4000:], file=sys.stderr)
        return Count(ran - skipped - failed, ran - skipped, skipped)

    return run


DIFFERENCES = "[differences](differences.md)"

SUITES: Sequence[Suite] = (
    Suite(
        "sample-apiserver",
        "Exchanges with Kubernetes' sample API server",
        "recorded from sample-apiserver 0.34.1 with etcd, sent to `examples/wardle`: status, headers and body of each answer",
        f"deliberate {DIFFERENCES}, each with its number",
        go_sample_server,
    ),
    Suite(
        "crd",
        "Exchanges with kube-apiserver about custom resources",
        "recorded from 1.36.2: definitions, schemas, CEL rules, versions, webhook conversion",
        f"deliberate {DIFFERENCES}, each with its number",
        kube_apiserver("crd", WITHOUT_COLLECTOR),
    ),
    Suite(
        "plane",
        "Exchanges with kube-apiserver about a control plane",
        "recorded from 1.36.2 with kube-controller-manager: authentication, RBAC, namespaces, quotas, garbage, events, leases, "
        "discovery",
        f"deliberate {DIFFERENCES}, each with its number",
        kube_apiserver("plane"),
    ),
    Suite(
        "policy",
        "Exchanges with kube-apiserver about admission and aggregation",
        "recorded from 1.36.2: webhooks, policies in CEL, APIServices",
        f"deliberate {DIFFERENCES}, each with its number",
        kube_apiserver("policy"),
    ),
    Suite(
        "rules",
        "Exchanges with kube-apiserver about the rules of workload kinds",
        "recorded from 1.36.2: what it refuses, fills in and lets change in pods, services, deployments and the other kinds",
        f"deliberate {DIFFERENCES}, each with its number",
        kube_apiserver("rules", "--service-cluster-ip-range=10.0.0.0/24", WITHOUT_COLLECTOR),
    ),
    Suite(
        "workloads",
        "Steps of kube-controller-manager, kube-scheduler and kwok",
        "recorded from 1.36.2 and kwok 0.8.0, taken on `oarlock up --nodes 0`: objects, events and their order after each step",
        "four steps of a node that is tainted, and one each of a rollout, a suspended job and a disruption budget; "
        "the real programs themselves differ in 0 to 5 steps of a run, by timing",
        workloads,
    ),
    Suite(
        "scheduler",
        "Sets of nodes and pods, asked of kube-scheduler 1.36.2",
        "random ones with resources, selectors, affinity, taints, spread, host ports, volumes and priorities: whether a new pod "
        "fits, whether others leave for it, and the sentence of `FailedScheduling` (`tools/compare_schedulers.py`)",
        "",
    ),
    Suite(
        "h2spec",
        "h2spec",
        "HTTP/2 and HPACK: a test of ours demands all of its 146 cases, in strict mode, over TLS",
        "",
        tests("clients/test_h2spec.py"),
    ),
    Suite(
        "kubectl",
        "kubectl",
        "tests of ours that run it, against `oarlock serve` and `oarlock up`",
        "",
        tests("clients/test_kubectl*.py", "clients/test_terminals.py"),
    ),
    Suite(
        "go-clients",
        "client-go, and a manager of controller-runtime with envtest",
        "tests of ours that compile and run them",
        "",
        tests("clients/test_client_go.py", "clients/test_go_clients*.py", "clients/test_envtest.py"),
    ),
    Suite(
        "python-clients",
        "kubernetes, kubernetes-asyncio, lightkube, kr8s, kopf",
        "tests of ours that use them",
        "",
        tests(
            "clients/test_python_clients*.py",
            "clients/test_kubernetes_asyncio.py",
            "clients/test_k*8s.py",
            "clients/test_kopf.py",
        ),
    ),
    Suite(
        "helm",
        "helm",
        "tests of ours that install, upgrade and remove releases",
        "",
        tests("clients/test_helm*.py"),
    ),
    Suite(
        "controller-runtime",
        "controller-runtime's own tests",
        "0.24.1, with `oarlock envtest` in place of kube-apiserver and etcd: client, cache, manager, builder, cluster, webhook, "
        "envtest",
        "webhooks with the certificate of a server as their authority, metadata in writes of `/status`, and dry-run creates with "
        "a resourceVersion were wrong then. They have been repaired, and the tests of clients, caches, webhooks and envtest "
        "of 0.25 passed on 2026-11-28",
    ),
    Suite(
        "kubectl-cmd",
        "kubectl's own tests (`test/cmd` of 1.32)",
        "functions that pass on kube-apiserver; kube-controller-manager runs beside the server where they need it",
        "three functions looked for published types and messages that were different then",
    ),
    Suite(
        "apiextensions",
        "Kubernetes' integration tests of definitions (1.36)",
        "those that pass on kube-apiserver",
        "ratcheting, words and codes were different then; most have been repaired since",
    ),
    Suite(
        "apply",
        "Kubernetes' integration tests of server-side apply, CEL and discovery (1.36.2)",
        "those that pass on kube-apiserver",
        "bodies that are YAML, objects of more than 1.5 MiB, published types were different then; two tests of aggregated "
        "discovery time out, see [critiques](critiques.md)",
    ),
    Suite(
        "python-suites",
        "The own end-to-end tests of Python clients",
        "kubernetes, kubernetes_asyncio, kr8s, lightkube, cloudcoil, kopf's examples: those that pass on kube-apiserver",
        "a create with an unreadable resourceVersion and base64 with line breaks were refused then",
    ),
    Suite(
        "definitions",
        "CustomResourceDefinitions of 16 projects",
        "argo, cert-manager, crossplane, kyverno, prometheus-operator, karpenter, kueue, calico, Gateway API, Istio and others: "
        "applied twice, established, without a difference",
        "the cost of rules over the keys of maps was estimated too high then: it refused 11 of Istio's and one of Gateway API's",
    ),
    Suite(
        "models",
        "Classes of `oarlock model` for CustomResourceDefinitions of 13 projects",
        "argo, cert-manager, cilium, cluster-api, crossplane, external-secrets, Gateway API, Istio, KEDA, prometheus-operator, "
        "tekton: `oarlock crd` prints the same schemas from them (`OARLOCK_CRDS=FOLDER pytest tests/unit/cli/test_model.py`)",
        "five of Argo Workflows have lists without a schema of their items, which a class can't say; it is told",
    ),
    Suite(
        "e2e",
        "Kubernetes' conformance tests (`e2e.test`)",
        "the suite that certifies clusters",
        "most of it needs containers, which `oarlock up` doesn't run",
    ),
)
