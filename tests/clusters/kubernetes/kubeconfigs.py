"""Kubeconfigs as people hand them in."""

from typing import Any

import yaml

NOBODY = "https://127.0.0.1:1"
"""Where nothing listens."""


def kubeconfig(*, server: str = NOBODY, contexts: tuple[str, ...] = ("prod",), **user: Any) -> str:
    """Return a kubeconfig with a token, unless `user` says something else."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts[0],
        "clusters": [{"name": "there", "cluster": {"server": server}}],
        "users": [{"name": "slipway", "user": user or {"token": "a-token-that-nobody-may-see"}}],
        "contexts": [{"name": one, "context": {"cluster": "there", "user": "slipway"}} for one in contexts],
    }
    return str(yaml.safe_dump(document))


EXEC = kubeconfig(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": ["eks"]})
