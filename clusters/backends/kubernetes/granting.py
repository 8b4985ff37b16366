"""What an administrator of a Kubernetes cluster applies for Slipway, as the text of a YAML file."""

from collections.abc import Iterable

import yaml

from clusters.backends.base import NAME, Misconfigured
from clusters.backends.kubernetes.rights import Feature, manifest

TEXTS = {
    Feature.INVENTORY: "machines, GPUs and why pods do not run",
    Feature.SERVING: "deployments of model workers",
    Feature.NODE_OPERATIONS: "cordon, taint and drain of machines",
    Feature.GATEWAY: "traffic by HTTPRoutes of a Gateway of the cluster",
    Feature.INFERENCE: "routes to InferencePools, where the gateway's setting says so",
    Feature.FLUID: "model files by datasets of Fluid",
    Feature.JOBS: "model files filled by a Job, checks of GPUs",
    Feature.CHECKS: "reading of namespaces, volume claims, storage and gateway classes",
}


def manifest_text(*, namespace: str, features: Iterable[str] | None = None) -> str:
    """The least RBAC for these features (None: all), with what is to be done with it.

    Raises Misconfigured for what is no namespace or no feature.
    """
    if not NAME.fullmatch(namespace):
        raise Misconfigured(f"{namespace!r} cannot name a namespace.", about="namespace")
    chosen = tuple(Feature) if features is None else tuple(map(_feature, features))
    documents = manifest(namespace=namespace, features=chosen)
    return _HOW.format(namespace=namespace) + yaml.safe_dump_all(documents, sort_keys=False)


def _feature(name: str) -> Feature:
    try:
        return Feature(name)
    except ValueError:
        raise Misconfigured(
            f"{name!r} is no feature. There are {', '.join(Feature)}.", about="features"
        ) from None


_HOW = """\
# Apply it with kubectl apply -f FILE. The kubeconfig to hand in is made with:
#
#   kubectl -n {namespace} get secret slipway-token -o jsonpath='{{.data.ca\\.crt}}' | base64 -d > ca.crt
#   kubectl config set-cluster there --kubeconfig=slipway.yaml --embed-certs --certificate-authority=ca.crt \\
#     --server="$(kubectl config view --minify -o jsonpath='{{.clusters[0].cluster.server}}')"
#   kubectl config set-credentials slipway --kubeconfig=slipway.yaml \\
#     --token="$(kubectl -n {namespace} get secret slipway-token -o jsonpath='{{.data.token}}' | base64 -d)"
#   kubectl config set-context there --kubeconfig=slipway.yaml --cluster=there --user=slipway
#   kubectl config use-context there --kubeconfig=slipway.yaml
"""
