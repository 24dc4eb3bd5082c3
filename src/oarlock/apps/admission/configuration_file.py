"""`AdmissionConfiguration`: the file of ``--admission-control-config-file``: what admission plugins are told by it.

Read once, at the start, as kube-apiserver does; the kubeconfigs that it names are read again when they change.
See also: ``client.webhooks``, what becomes of a kubeconfig.
Source: ``AdmissionConfiguration`` and ``WebhookAdmissionConfiguration`` of apiserver.config.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.server.files.strict_reader import StrictReader, decoded_file

GROUP = "apiserver.config.k8s.io"
_FILE_KINDS = (
    (f"{GROUP}/v1", "AdmissionConfiguration"),
    ("apiserver.k8s.io/v1alpha1", "AdmissionConfiguration"),
)
_WEBHOOK_KINDS = (
    (f"{GROUP}/v1", "WebhookAdmissionConfiguration"),
    (f"{GROUP}/v1alpha1", "WebhookAdmission"),
)
_WEBHOOK_PLUGINS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")


class AdmissionFileError(ValueError):
    """What is wrong with the file, one line each: the file, the field and why."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True)
class AdmissionConfiguration:
    """`kubeconfigs` have the credentials for webhooks, by the name of the plugin that asks them."""

    kubeconfigs: Mapping[str, Path] = field(default_factory=dict)

    @staticmethod
    def read(file: Path) -> AdmissionConfiguration:
        """What `file` and those that it names say. Raises AdmissionFileError."""
        tree, lines = _decoded(file)
        reader = _PluginsReader()
        plugins = {} if lines else reader.plugins(tree)
        lines += [f"{file}: {problem}" for problem in reader.problems]
        kubeconfigs = {}
        for name, (place, configuration, path) in plugins.items():
            where, found = f"{file}: {place}.configuration: ", configuration
            if path:
                own = file.parent / path
                where, found = f"{own}: ", None
                found, more = _decoded(own)
                lines += more
                if more:
                    continue
            webhooks = _KubeconfigReader()
            kubeconfig = webhooks.kubeconfig(found)
            lines += [f"{where}{problem}" for problem in webhooks.problems]
            if kubeconfig:
                kubeconfigs[name] = Path(kubeconfig)
        if lines:
            raise AdmissionFileError(lines)
        return AdmissionConfiguration(kubeconfigs)


def _decoded(file: Path) -> tuple[Any, list[str]]:
    """What is in a file, and what keeps it from being read."""
    try:
        decoded = decoded_file(file)
    except ValueError as error:
        return None, [f"{file}: {error}"]
    return decoded.tree, [f"{file}: {key} is there twice" for key in decoded.repeated_keys]


_Plugin = tuple[str, Any, str]
"""The place of a plugin in the file, its configuration and the path to it, of which there is one."""


class _PluginsReader(StrictReader):
    def plugins(self, tree: Any) -> dict[str, _Plugin]:
        tree = self.map("", tree, ("apiVersion", "kind", "plugins"))
        _check_kind(self, tree, _FILE_KINDS)
        found: dict[str, _Plugin] = {}
        for at, plugin in enumerate(self.list("plugins", tree)):
            path = f"plugins[{at}]"
            plugin = self.map(path, plugin, ("name", "path", "configuration"))
            name, file, configuration = self.text(path, plugin, "name"), self.text(path, plugin, "path"), None
            if plugin.get("configuration") is not None:
                configuration = plugin["configuration"]
            if not name:
                self.wrong(f"{path}.name", "is required")
            elif name in found:
                self.wrong(f"{path}.name", f"{quote(name)} is there twice")
            elif file and configuration is not None:
                self.wrong(path, "write path or configuration, not both")
            elif file or configuration is not None:
                if name in _WEBHOOK_PLUGINS:
                    found[name] = (path, configuration, file)
                else:
                    known = " and ".join(_WEBHOOK_PLUGINS)
                    self.wrong(path, f"nothing reads a configuration of {quote(name)} here: {known} have one")
        return found


class _KubeconfigReader(StrictReader):
    def kubeconfig(self, tree: Any) -> str:
        tree = self.map("", tree, ("apiVersion", "kind", "kubeConfigFile"))
        _check_kind(self, tree, _WEBHOOK_KINDS)
        file = self.text("", tree, "kubeConfigFile")
        if file and not Path(file).is_absolute():
            self.wrong("kubeConfigFile", f"Invalid value: {quote(file)}: must be an absolute file path")
        return file


def _check_kind(reader: StrictReader, tree: Mapping[str, Any], kinds: Sequence[tuple[str, str]]) -> None:
    if tree and (tree.get("apiVersion"), tree.get("kind")) not in kinds:
        version, kind = kinds[0]
        reader.wrong("kind", f"write apiVersion: {version} and kind: {kind}")
