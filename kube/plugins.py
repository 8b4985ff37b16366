"""Programs that a kubeconfig signs in by (EKS, GKE, AKS). They run with our rights, so only those an
operator lists do.

What runs is the file that the operator named, with arguments and variables of forms that only sign in:
`aws` could
copy files as well. Recorded forms: `aws eks update-kubeconfig`, `gcloud container clusters get-credentials`,
`az aks get-credentials` with `kubelogin convert-kubeconfig`.
"""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kube.errors import ApiUnreachable, BadConfig

LIMIT_SECONDS = 10.0
EARLY_SECONDS = 60.0
"""A token is made anew so long before it ends."""
UNTOLD_SECONDS = 300.0
"""For which one is used that does not say."""
API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
VALUE = r"[A-Za-z0-9][A-Za-z0-9._:/@-]*"


@dataclass(frozen=True, slots=True)
class _AllowedArguments:
    """Arguments that a program may be given."""

    begins: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    """Each with a value, as its own argument or after `=`."""
    flags: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()


FORMS: dict[str, _AllowedArguments] = {
    "aws": _AllowedArguments(
        ("eks", "get-token"),
        frozenset({"--cluster-name", "--cluster-id", "--region", "--role-arn", "--output"}),
        variables=frozenset({"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_STS_REGIONAL_ENDPOINTS"}),
    ),
    "aws-iam-authenticator": _AllowedArguments(
        ("token",), frozenset({"-i", "-r", "--cluster-id", "--role", "--region"})
    ),
    "gke-gcloud-auth-plugin": _AllowedArguments(flags=frozenset({"--use_application_default_credentials"})),
    "kubelogin": _AllowedArguments(
        ("get-token",),
        frozenset({"--environment", "--server-id", "--client-id", "--tenant-id", "--login", "-l"}),
    ),
}


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A program to run, with nothing left to check."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    api_version: str


@dataclass(frozen=True, slots=True)
class Plugins:
    """`allowed`: name -> absolute path, as an operator lists them. `environment`: all that they see of
    ours.
    """

    allowed: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    limit_seconds: float = LIMIT_SECONDS

    def order(self, plugin: Mapping[str, Any]) -> PluginCommand | str:
        """Return the command to run, or why it may not run."""
        name = str(plugin.get("command") or "").rpartition("/")[2]
        path = self.allowed.get(name)
        if path is None:
            return "programs run only if an operator of Slipway has allowed them"
        form = FORMS.get(name)
        if form is None:
            return "Slipway does not know which of its arguments only sign in"
        if plugin.get("apiVersion") not in API_VERSIONS:
            return f"its apiVersion must be one of {', '.join(API_VERSIONS)}"
        arguments = plugin.get("args") or []
        if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
            return "its args must be a list of texts"
        if fault := _argument_fault(form, arguments):
            return fault
        variables = {}
        for one in plugin.get("env") or []:
            key, value = str(one.get("name")), str(one.get("value"))
            if key not in form.variables or not re.fullmatch(VALUE, value):
                return f"it may not be given the variable {key}"
            variables[key] = value
        return PluginCommand((path, *arguments), variables, str(plugin["apiVersion"]))

    def run(self, order: PluginCommand) -> tuple[str, float]:
        """A token, and the epoch second at which another one is wanted. Raises BadConfig, ApiUnreachable."""
        told = {"apiVersion": order.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**self.environment, **order.variables, "KUBERNETES_EXEC_INFO": json.dumps(told)}
        name = order.argv[0].rpartition("/")[2]
        try:
            with tempfile.TemporaryDirectory() as nowhere:
                done = subprocess.run(
                    order.argv,
                    env=environment,
                    cwd=nowhere,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=self.limit_seconds,
                    check=False,
                )
        except subprocess.TimeoutExpired as error:
            raise ApiUnreachable(f"{name} gave no token within {self.limit_seconds:g} s.") from error
        except OSError as error:
            raise BadConfig(f"{name} cannot be run: {error}") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise BadConfig(f"{name} gave no token (exit {done.returncode}): {said}")
        return _token_in(done.stdout, name)


def _argument_fault(form: _AllowedArguments, arguments: list[str]) -> str:
    if tuple(arguments[: len(form.begins)]) != form.begins:
        return f"its arguments must begin with {' '.join(form.begins)}"
    rest = iter(arguments[len(form.begins) :])
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument in form.flags:
            continue
        if name not in form.options:
            return f"its argument {name!r} is not among those that only sign in"
        value = value if equals else next(rest, "")
        if not re.fullmatch(VALUE, value):
            return f"its argument {name} has the value {value!r}"
    return ""


def _token_in(output: bytes, name: str) -> tuple[str, float]:
    try:
        status = json.loads(output)["status"]
        token = str(status["token"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadConfig(f"{name} answered no ExecCredential with a token.") from error
    try:
        ends = datetime.fromisoformat(status["expirationTimestamp"]).timestamp() - EARLY_SECONDS
    except (KeyError, TypeError, ValueError):
        ends = time.time() + UNTOLD_SECONDS
    return token, ends
