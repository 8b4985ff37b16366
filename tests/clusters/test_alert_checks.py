"""Checks of the fleet that no other room sees: what signs in to clusters, and memory without a kubelet."""

import base64
import datetime as dt
import json
from datetime import timedelta
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.utils import timezone

from clusters import heartbeat_records
from clusters.agents import agent_key
from clusters.alert_checks import ALERT_CHECKS
from clusters.backends.configured import SECRETS_PURPOSE
from clusters.models import Cluster
from common.sealed import seal
from tests.clusters.world import Scene, node_of

pytestmark = pytest.mark.django_db


def found(name: str) -> list[tuple[dict[str, str], float]]:
    check = next(one for one in ALERT_CHECKS if one.name == name)
    return [(dict(one.labels), one.value) for one in check.find()]


def certificate(days: float) -> tuple[str, str]:
    """Make one that ends then, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "slipway")])
    now = timezone.now()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=90))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM).decode(), pem.decode()


def kubeconfig(user: dict[str, Any], authority_days: float = 900) -> str:
    authority, _key = certificate(authority_days)
    cluster = {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
    }
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }
    )


def signed_in(days: float) -> dict[str, str]:
    pem, key = certificate(days)
    return {
        "client-certificate-data": base64.b64encode(pem.encode()).decode(),
        "client-key-data": base64.b64encode(key.encode()).decode(),
    }


def token(days: float) -> dict[str, str]:
    end = (timezone.now() + timedelta(days=days)).astimezone(dt.UTC).timestamp()
    body = base64.urlsafe_b64encode(json.dumps({"exp": int(end)}).encode()).rstrip(b"=").decode()
    return {"token": f"e30.{body}.c2ln"}


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        (kubeconfig(signed_in(5)), ["client certificate"]),
        (kubeconfig(signed_in(50)), []),
        (kubeconfig(token(-1)), ["token"]),
        (kubeconfig(token(50), authority_days=3), ["certificate authority"]),
        (kubeconfig({"token": "opaque"}), []),
        ("no kubeconfig", []),
    ],
)
def test_what_signs_in_to_a_cluster_warns_before_it_ends(text: str, ending: list[str]) -> None:
    sealed = {"kubeconfig": seal(text, purpose=SECRETS_PURPOSE)}
    Cluster.objects.create(name="west", kind="kubernetes", sealed_secrets=sealed)
    labels = [labels for labels, _days in found("SlipwayClusterCredentialExpires")]
    assert labels == [{"cluster": "west", "credential": name} for name in ending]


def test_a_machine_whose_memory_is_used_up_is_found_by_its_agents_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    readings = {}
    for name, used in (("full", 0.97), ("fine", 0.5), ("no-agent", None)):
        node = node_of(scene.cluster, name, state="ready")
        if used:
            readings[agent_key(scene.cluster.pk, node.uid)] = {"host": {"memory_used_ratio": used}}
    monkeypatch.setattr(heartbeat_records, "readings_by_agent", lambda keys: readings)
    ((labels, value),) = found("SlipwayHostMemoryFull")
    assert (labels["machine"], value) == ("full", 0.97)
