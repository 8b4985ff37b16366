"""Reading a kubeconfig that a person hands in: as data, which names no file and runs no program of this
machine.
"""

import base64
import binascii
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kube.access import Access, FileToken, FixedToken, GeneratedToken, TokenSource
from kube.errors import BadConfig, PluginRefused
from kube.plugins import Plugins
from kube.untrusted_yaml import BadYaml, load

Section = Mapping[str, Any]
EMBED = "Make one that has everything in it: kubectl config view --minify --flatten --raw"
MAX_QUOTED = 100
"""Characters of a value that a sentence repeats."""
SERVICE_ACCOUNT = """\
kubectl -n kube-system create serviceaccount slipway
kubectl create clusterrolebinding slipway --clusterrole=ROLE --serviceaccount=kube-system:slipway
( umask 077; cat > slipway.yaml <<END
apiVersion: v1
kind: Config
current-context: slipway
contexts: [{name: slipway, context: {cluster: slipway, user: slipway}}]
clusters:
- name: slipway
  cluster:
    server: "$(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}')"
    certificate-authority-data: "$(kubectl config view --minify --flatten --raw \\
      -o jsonpath='{.clusters[0].cluster.certificate-authority-data}')"
users:
- name: slipway
  user:
    token: "$(kubectl -n kube-system create token slipway --duration=8760h)"
END
)"""
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.+-----END [A-Z ]+-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Trust:
    """Permissions of a kubeconfig on this machine. The default: it may only hold data."""

    files: bool = False
    """It is the operator's own, and may name files."""
    plugins: Plugins = field(default_factory=Plugins)


def access_of(text: str, *, context: str = "", trust: Trust = Trust()) -> Access:
    """Return the access of the context named, or the current one. Raises BadConfig, PluginRefused."""
    config = _parsed(text)
    cluster, user = _chosen(config, context)
    _check_files(cluster, trust)
    _check_files(user, trust)
    if cluster.get("insecure-skip-tls-verify"):
        raise BadConfig(
            "The kubeconfig switches off the check of the server's certificate "
            "(insecure-skip-tls-verify): anybody "
            "between could take the credential. Give certificate-authority-data instead."
        )
    if user.get("username") or user.get("password"):
        raise BadConfig("Kubernetes has had no sign-in by name and password since 1.19: use a token.")
    if user.get("as") or user.get("as-groups"):
        raise BadConfig(
            "The kubeconfig acts as another user (as, as-groups): hand in that user's own credential."
        )
    if provider := user.get("auth-provider"):
        name = str(provider.get("name") if isinstance(provider, Mapping) else provider)
        raise PluginRefused(
            _refusal(f"auth-provider {short(name)}", "it was removed from Kubernetes in 1.26")
        )
    return Access(
        server=str(cluster.get("server") or ""),
        token=_token(user, trust),
        authority_pem=_pem(cluster, "certificate-authority"),
        certificate_pem=_pem(user, "client-certificate"),
        key_pem=_pem(user, "client-key"),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
    )


def _parsed(text: str) -> Section:
    try:
        config = load(text)
    except BadYaml as error:
        raise BadConfig(f"The kubeconfig cannot be read: {error}. {EMBED}") from None
    if not isinstance(config, Mapping) or config.get("kind", "Config") != "Config":
        raise BadConfig("This is no kubeconfig: it has no `kind: Config`.")
    return config


def short(text: str) -> str:
    """Return a value as a sentence may quote it."""
    return text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 1] + "…"


def _chosen(config: Section, context: str) -> tuple[Section, Section]:
    name = context or str(config.get("current-context") or "")
    contexts = _named(config, "contexts", "context")
    if not name and len(contexts) == 1:
        name = next(iter(contexts))
    if name not in contexts:
        known = ", ".join(short(known) for known in sorted(contexts)[:10]) or "none"
        raise BadConfig(f"The kubeconfig has no context {short(name)!r}. It has: {known}.")
    chosen = contexts[name]
    found = []
    for key, section in (("cluster", "clusters"), ("user", "users")):
        wanted = str(chosen.get(key) or "")
        held = _named(config, section, key)
        if wanted not in held:
            raise BadConfig(
                f"The kubeconfig's context {short(name)} names {key} {short(wanted)!r}, which is not in it."
            )
        found.append(held[wanted])
    return found[0], found[1]


def _named(config: Section, section: str, key: str) -> dict[str, Section]:
    listed = config.get(section) or []
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise BadConfig(f"The kubeconfig's {section} must be a list.")
    found: dict[str, Section] = {}
    for one in listed:
        inner = one.get(key) or {}
        if not isinstance(inner, Mapping):
            raise BadConfig(
                f"The kubeconfig's {section} {short(str(one.get('name')))!r} must have a map {key}."
            )
        found[str(one.get("name"))] = inner
    return found


def _check_files(section: Section, trust: Trust) -> None:
    named = [key for key in _FILES if section.get(key)]
    if named and not trust.files:
        raise BadConfig(f"The kubeconfig names files ({', '.join(named)}), which are not here. {EMBED}")


def _pem(section: Section, key: str) -> str:
    """Read PEM from the data, which has precedence, or the file."""
    if data := section.get(f"{key}-data"):
        try:
            text = base64.b64decode(str(data), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise BadConfig(f"The kubeconfig's {key}-data is no base64 of a PEM file.") from error
    elif path := section.get(key):
        try:
            text = Path(str(path)).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfig(f"The kubeconfig's {key} cannot be read: {error}") from error
    else:
        return ""
    if not _PEM.search(text):
        raise BadConfig(f"The kubeconfig's {key} is no PEM: it has no -----BEGIN ...-----.")
    return text


def _token(user: Section, trust: Trust) -> TokenSource:
    if plugin := user.get("exec"):
        return _plugin_token(plugin, trust)
    if user.get("tokenFile"):
        return FileToken(Path(str(user["tokenFile"])))
    token = str(user.get("token") or "").strip()
    if re.search(r"\s", token):
        raise BadConfig("The kubeconfig's token has spaces or lines in it.")
    has_certificate = user.get("client-certificate-data") or user.get("client-certificate")
    if not token and not has_certificate:
        raise BadConfig("The kubeconfig's user has neither token nor client certificate.")
    return FixedToken(token)


def _plugin_token(plugin: Any, trust: Trust) -> TokenSource:
    if not isinstance(plugin, Mapping):
        raise BadConfig("The kubeconfig's exec must be a map.")
    command = str(plugin.get("command") or "")
    order = trust.plugins.order(plugin)
    if isinstance(order, str):
        raise PluginRefused(_refusal(f"the program {short(command)!r}", order))
    return GeneratedToken(make=lambda: trust.plugins.run(order), clock=time.time)


def _refusal(what: str, why: str) -> str:
    return (
        f"The kubeconfig signs in by {what}: {why}. Hand in the kubeconfig of a service account instead "
        f"(ROLE: one that may do what Slipway shall do there):\n\n{SERVICE_ACCOUNT}"
    )
