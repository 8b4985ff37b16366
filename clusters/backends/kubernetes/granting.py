"""The manifest that an administrator of a Kubernetes cluster applies for Slipway."""

from collections.abc import Iterable

import yaml

from clusters.backends.base import NAME, Misconfigured
from clusters.backends.kubernetes.rights import Feature, manifest


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
# Apply it with kubectl apply -f FILE. The kubeconfig to hand in is made with the following, which puts no
# secret into the arguments of a command:
#
#   ( umask 077; cat > slipway.yaml <<END
#   apiVersion: v1
#   kind: Config
#   current-context: there
#   contexts: [{{name: there, context: {{cluster: there, user: slipway}}}}]
#   clusters:
#   - name: there
#     cluster:
#       server: "$(kubectl config view --minify -o jsonpath='{{.clusters[0].cluster.server}}')"
#       certificate-authority-data: "$(
#         kubectl -n {namespace} get secret slipway-token -o jsonpath='{{.data.ca\\.crt}}')"
#   users:
#   - name: slipway
#     user:
#       token: "$(kubectl -n {namespace} get secret slipway-token -o jsonpath='{{.data.token}}' | base64 -d)"
#   END
#   )
"""
