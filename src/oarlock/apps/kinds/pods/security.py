"""Security contexts of pods and containers: users, capabilities, profiles, sysctls, operating systems.

Source: Kubernetes' validation of core/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import check_descending_path, check_range, check_text
from oarlock.meta import names
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required, TooLong
from oarlock.meta.json_trees import Tree

_MOST: Final = 2**31 - 1
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_USER_HIDES: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOMAIN: Final = re.compile(r"(?i)[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)*")
_OF_LINUX: Final = (
    "hostPID",
    "hostIPC",
    "hostUsers",
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "resources",
)
_OF_LINUX_CONTAINERS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def each_container(spec: Tree, path: str) -> Iterator[tuple[Tree, str]]:
    """All containers of a pod with their paths, in the order in which Kubernetes visits them."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            yield container, f"{path}.{kind}[{i}]"


def _check_id(value: int | None, path: str) -> Iterator[FieldError]:
    yield from check_range(value, 0, _MOST, path)


def check_security_context(context: Tree | None, host_users: bool, path: str) -> Iterator[FieldError]:
    """Check the security context of a container."""
    if not context:
        return
    yield from _check_id(context.get("runAsUser"), f"{path}.runAsUser")
    yield from _check_id(context.get("runAsGroup"), f"{path}.runAsGroup")
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        yield NotSupported(f"{path}.procMount", mount, ("Default", "Unmasked"))
    if mount == "Unmasked" and host_users:
        yield Invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _check_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        alone = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield Invalid(path, go_value("SecurityContext", context), f"{alone} `privileged` to true")
        if "CAP_SYS_ADMIN" in (at(context, "capabilities.add") or ()):
            yield Invalid(path, go_value("SecurityContext", context), f"{alone} `capabilities.Add` CAP_SYS_ADMIN")
    yield from _check_windows(context.get("windowsOptions"), f"{path}.windowsOptions")
    yield from _check_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def check_pod_security(spec: Tree, path: str) -> Iterator[FieldError]:
    """The security context of a pod, and the namespaces that it shares with its node."""
    context, where = spec.get("securityContext") or {}, f"{path}.securityContext"
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _check_id(context.get(name), f"{where}.{name}")
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _check_id(group, f"{where}.supplementalGroups[{i}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield Invalid(f"{where}.shareProcessNamespace", True, why)
    yield from _check_sysctls(spec, context, f"{where}.sysctls")
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in ("Always", "OnRootMismatch"):
        yield NotSupported(f"{where}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    yield from _check_seccomp(context.get("seccompProfile"), f"{where}.seccompProfile")
    yield from _check_windows(context.get("windowsOptions"), f"{where}.windowsOptions")
    yield from _check_app_armor(context.get("appArmorProfile"), f"{where}.appArmorProfile")
    for name, choices in (("supplementalGroupsPolicy", ("Merge", "Strict")), ("seLinuxChangePolicy", ("Recursive",))):
        if context.get(name) is not None and context[name] not in choices:
            yield NotSupported(f"{where}.{name}", context[name], choices)


def _check_sysctls(spec: Tree, context: Tree, path: str) -> Iterator[FieldError]:
    known: set[str] = set()
    for i, setting in enumerate(context.get("sysctls") or ()):
        name, where = setting.get("name") or "", f"{path}[{i}].name"
        if not name:
            yield Required(where)
        elif len(name) > 253 or not re.match(_SYSCTL, name):
            yield Invalid(where, name, f"must have at most 253 characters and match regex {_SYSCTL}")
        elif name in known:
            yield Duplicate(where, name)
        known.add(name)
        for shared, prefixes in (("hostNetwork", ("net.",)), ("hostIPC", _IPC_SYSCTLS)):
            if spec.get(shared) and name.replace("/", ".").startswith(prefixes):
                yield Invalid(where, name, f"may not be specified when '{shared}' is true")


def _check_seccomp(profile: Tree | None, path: str) -> Iterator[FieldError]:
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        yield Required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        yield NotSupported(f"{path}.type", kind, _PROFILES)
    if kind != "Localhost":
        if local is not None:
            shown = go_value("SeccompProfile", profile)
            yield Invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost")
    elif local is None:
        yield Required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    else:
        yield from check_descending_path(local, f"{path}.localhostProfile")


def _check_app_armor(profile: Tree | None, path: str) -> Iterator[FieldError]:
    if profile is None:
        return
    kind, local, where = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if kind == "Localhost":
        if not local or not local.strip():
            yield Required(where, "must be set when AppArmor type is Localhost")
        elif local != local.strip():
            yield Invalid(where, local, "must not be padded with whitespace")
        if len(local or "") > 4095:
            yield TooLong(where, 4095)
    elif not kind:
        yield Required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILES:
        yield NotSupported(f"{path}.type", kind, _PROFILES)
    elif local is not None:
        yield Invalid(where, local, "can only be set when AppArmor type is Localhost")


def _check_windows(options: Tree | None, path: str) -> Iterator[FieldError]:
    if not options:
        return
    name, credential, user = (options.get(field) for field in _WINDOWS)
    if name is not None:
        yield from check_text(names.dns1123_subdomain, name, f"{path}.gmsaCredentialSpecName")
    if credential is not None and not credential:
        yield Invalid(f"{path}.gmsaCredentialSpec", credential, "gmsaCredentialSpec cannot be an empty string")
    elif credential is not None and len(credential) > 64 * 1024:
        yield Invalid(f"{path}.gmsaCredentialSpec", credential, "gmsaCredentialSpec size must be under 64 KiB")
    if user is not None:
        for why in _complaints_of_user(user):
            yield Invalid(f"{path}.runAsUserName", user, f"runAsUserName{why}")


_WINDOWS: Final = ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")


def _complaints_of_user(text: str) -> Iterator[str]:
    """What is wrong with ``DOMAIN\\user``."""
    if not text:
        yield " cannot be an empty string"
    elif any(ord(char) < 32 or ord(char) == 127 for char in text):
        yield " cannot contain control characters"
    elif text.count("\\") > 1:
        yield " cannot contain more than one backslash"
    else:
        domain, slash, user = text.rpartition("\\")
        if len(domain) >= 256:
            yield "'s Domain length must be under 256 characters"
        if slash and not (_NETBIOS.fullmatch(domain) or _DOMAIN.fullmatch(domain)):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user) > 104:
            yield "'s User length must not be longer than 104 characters"
        if re.fullmatch("[. ]+", user):
            yield "'s User cannot contain only periods or spaces"
        if _USER_HIDES.search(user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def check_host_users(spec: Tree, path: str) -> Iterator[FieldError]:
    """What a pod with users of its own, or one of Windows' host processes, shares with its node."""
    own = at(spec, "securityContext.windowsOptions.hostProcess")
    hosted = total = 0
    for container, where in each_container(spec, path):
        total += 1
        its = at(container, "securityContext.windowsOptions.hostProcess")
        if own is not None and its is not None and own != its:
            why = f"pod hostProcess value must be identical if both are specified, was {str(own).lower()}"
            yield Invalid(f"{where}.securityContext.windowsOptions.hostProcess", its, why)
        hosted += bool(its if its is not None else own)
    if hosted:
        if hosted != total:
            why = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
            yield Invalid(path, "", why)
        if not spec.get("hostNetwork"):
            why = "hostNetwork must be true if pod contains any hostProcess containers"
            yield Invalid(f"{path}.hostNetwork", False, why)
    if spec.get("hostUsers") is False:
        for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                yield Forbidden(f"{path}.{shown}", "when `hostUsers` is false")
        for container, where in each_container(spec, path):
            if container.get("volumeDevices"):
                yield Forbidden(f"{where}.volumeDevices", "when `hostUsers` is false")


def check_os(spec: Tree, path: str) -> Iterator[FieldError]:
    """What a pod of a certain operating system can't have."""
    if spec.get("os") is None:
        return
    name = spec["os"].get("name") or ""
    if not name:
        yield Required(f"{path}.os.name")
    elif name not in ("linux", "windows"):
        yield NotSupported(f"{path}.os", name, ("linux", "windows"))
    elif name == "linux":
        why = "windows options cannot be set for a linux pod"
        if at(spec, "securityContext.windowsOptions") is not None:
            yield Forbidden(f"{path}.securityContext.windowsOptions", why)
        for container, where in each_container(spec, path):
            if at(container, "securityContext.windowsOptions") is not None:
                yield Forbidden(f"{where}.securityContext.windowsOptions", why)
    else:
        yield from _check_for_windows(spec, path)


def _check_for_windows(spec: Tree, path: str) -> Iterator[FieldError]:
    why = "cannot be set for a windows pod"
    for field in _OF_LINUX:
        value: Any = at(spec, field)
        if value or (value is not None and field.startswith("securityContext.")) or (field == "hostUsers" and value):
            yield Forbidden(f"{path}.{field}", why)
    for container, where in each_container(spec, path):
        for field in _OF_LINUX_CONTAINERS:
            if at(container, f"securityContext.{field}") is not None:
                yield Forbidden(f"{where}.securityContext.{field}", why)
