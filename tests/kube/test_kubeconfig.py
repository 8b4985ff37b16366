"""Kubeconfigs that people hand in: what they may say, and make this machine do."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.access import Access, FileToken, FixedToken, GeneratedToken
from kube.errors import ApiUnreachable, BadConfig, PluginRefused
from kube.kubeconfig import Trust, access_of
from kube.plugins import Plugins

pytestmark = pytest.mark.any_database
PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
DATA = base64.b64encode(PEM.encode()).decode()
EKS = {
    "apiVersion": "client.authentication.k8s.io/v1beta1",
    "command": "aws",
    "args": ["--region", "eu-west-1", "eks", "get-token", "--cluster-name", "prod"],
}


def kubeconfig(user: dict[str, Any] | None = None, **cluster: Any) -> str:
    where = {"server": "https://10.0.0.1:6443", "certificate-authority-data": DATA} | cluster
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "prod",
            "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": where}],
            "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        }
    )


def test_a_token_and_an_authority_are_read() -> None:
    access = access_of(kubeconfig())
    assert (access.server, access.token.token(), access.authority_pem) == (
        "https://10.0.0.1:6443",
        "secret",
        PEM,
    )
    assert "secret" not in repr(access)


def test_a_client_certificate_is_enough() -> None:
    access = access_of(kubeconfig({"client-certificate-data": DATA, "client-key-data": DATA}))
    assert (access.certificate_pem, access.key_pem, access.token.token()) == (PEM, PEM, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{not: [yaml", "no YAML in line"),
        ("[]", "no kubeconfig"),
        ("kind: Pod", "no kubeconfig"),
        ("kind: Config", "no context ''"),
        ("kind: Config\nusers: 5\ncontexts: []", "no context"),
        (
            kubeconfig().replace("current-context: prod", "current-context: test"),
            "no context 'test'. It has: prod",
        ),
        (kubeconfig().replace("cluster: c", "cluster: d"), "names cluster 'd', which is not in it"),
        (kubeconfig({}), "neither token nor client certificate"),
        (kubeconfig({"token": "two words"}), "spaces"),
        (kubeconfig({"username": "a", "password": "b"}), "by name and password"),
        (kubeconfig({"client-certificate-data": DATA}), "needs its key"),
        (kubeconfig({"token": "a", "as": "admin"}), "acts as another user"),
        (kubeconfig(server="http://10.0.0.1"), "unencrypted"),
        (kubeconfig(server="10.0.0.1:6443"), "no address of a cluster"),
        (kubeconfig(server="https://a:b@10.0.0.1"), "does not belong into the address"),
        (kubeconfig(**{"insecure-skip-tls-verify": True}), "anybody between could take the credential"),
        (kubeconfig(**{"certificate-authority-data": "%%%"}), "no base64"),
        (kubeconfig(**{"certificate-authority-data": "YWJj"}), "no PEM"),
        ("x" * 300_000, "larger than 256 KiB"),
    ],
)
def test_what_cannot_be_meant_is_said(text: str, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        access_of(text)


def test_a_fault_of_the_file_does_not_repeat_what_is_secret() -> None:
    with pytest.raises(BadConfig) as refused:
        access_of("users:\n- token: hunter2\n  - bad")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"tokenFile": "/etc/passwd"}, {}),
        ({"client-certificate": "/etc/passwd", "client-key": "/etc/passwd"}, {}),
        ({"token": "a"}, {"certificate-authority": "/etc/passwd", "certificate-authority-data": ""}),
    ],
)
def test_a_file_of_this_machine_is_never_read_for_a_person(
    user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    with pytest.raises(BadConfig, match="kubectl config view --minify --flatten --raw"):
        access_of(kubeconfig(user, **cluster))


def test_an_operators_own_file_may_name_files(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    access = access_of(kubeconfig({"tokenFile": str(token)}), trust=Trust(files=True))
    assert access.token.token() == "first"


def test_a_sign_in_by_program_is_refused_with_another_way() -> None:
    with pytest.raises(PluginRefused) as refused:
        access_of(kubeconfig({"exec": EKS}))
    assert "an operator of Slipway has allowed" in str(refused.value)
    assert "kubectl -n kube-system create serviceaccount slipway" in str(refused.value)
    with pytest.raises(PluginRefused, match="auth-provider gcp"):
        access_of(kubeconfig({"auth-provider": {"name": "gcp"}}))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"args": ["s3", "cp", "/etc/passwd", "s3://mine"]}, "must begin with eks get-token"),
        (
            {"args": ["eks", "get-token", "--endpoint-url", "https://mine"]},
            "not among those that only sign in",
        ),
        ({"args": ["eks", "get-token", "--cluster-name", "$(id)"]}, "has the value"),
        ({"args": ["eks", "get-token", "--cluster-name", "--profile"]}, "has the value"),
        ({"args": "eks get-token"}, "list of texts"),
        ({"env": [{"name": "LD_PRELOAD", "value": "/tmp/mine.so"}]}, "the variable LD_PRELOAD"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "its apiVersion must be"),
        ({"command": "/tmp/mine"}, "programs run only if"),
    ],
)
def test_an_allowed_program_only_signs_in(change: dict[str, Any], why: str) -> None:
    trust = Trust(plugins=Plugins(allowed={"aws": "/usr/bin/aws"}))
    plugin = EKS | {"args": ["eks", "get-token", "--cluster-name", "prod"]} | change
    with pytest.raises(PluginRefused, match=why.replace("(", r"\(")):
        access_of(kubeconfig({"exec": plugin}), trust=trust)


def program(directory: Path, body: str) -> str:
    path = directory / "gke-gcloud-auth-plugin"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    path.chmod(0o755)
    return str(path)


GKE = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/home/me/gke-gcloud-auth-plugin"}


def gke(path: str, **plugins: Any) -> Access:
    plugins = {"allowed": {"gke-gcloud-auth-plugin": path}} | plugins
    return access_of(kubeconfig({"exec": GKE}), trust=Trust(plugins=Plugins(**plugins)))


def test_the_operators_program_runs_and_sees_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_SECRET", "hunter2")
    told = "json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind']"
    body = f"token = {told} + str('SLIPWAY_SECRET' in os.environ)"
    body += "\nprint(json.dumps({'status': {'token': token}}))"
    assert gke(program(tmp_path, body)).token.token() == "ExecCredentialFalse"


@pytest.mark.parametrize(
    ("body", "why"),
    [("sys.exit('not signed in')", "not signed in"), ("print('hello')", "no ExecCredential")],
)
def test_a_program_that_gives_no_token_is_said(tmp_path: Path, body: str, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        gke(program(tmp_path, body)).token.token()


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ApiUnreachable, match=r"no token within 0\.3 s"):
        gke(program(tmp_path, "time.sleep(30)"), limit_seconds=0.3).token.token()


def test_a_made_token_is_made_anew_when_it_ends_or_is_refused() -> None:
    made = iter([("a", 10.0), ("b", 20.0), ("c", 30.0)])
    now = [0.0]
    source = GeneratedToken(make=lambda: next(made), clock=lambda: now[0])
    assert [source.token(), source.token()] == ["a", "a"]
    now[0] = 10.0
    assert source.token() == "b"
    assert source.renew()
    assert source.token() == "c"


def test_a_token_in_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    source = FileToken(file)
    assert source.token() == "first"
    assert not source.renew()
    file.write_text("second")
    assert source.renew()
    assert source.token() == "second"
    with pytest.raises(BadConfig, match="cannot be read"):
        FileToken(tmp_path / "none").token()


def test_a_fixed_token_is_never_another() -> None:
    assert not FixedToken("a").renew()
