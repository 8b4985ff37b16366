"""Jobs in a Kubernetes cluster that any of the machines they name may run: programs that measure or prepare
what others serve. A cordoned or tainted machine runs none of them."""

import base64
from collections.abc import Mapping
from dataclasses import replace

from clusters.backends.kubernetes.errors import granted, translated_errors
from clusters.backends.kubernetes.jobs import OWNER, KubernetesJobs, answering, on_machines
from clusters.backends.kubernetes.manifests import MANAGED_BY
from clusters.backends.kubernetes.rights import Feature
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import OperationUnsupported
from common.jobs.spec import JobSpec
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists
from kube.resources import JOBS

INPUT_DIRECTORY = "/run/slipway-job"
INPUT_KEY = "stdin"
GRACE_SECONDS = 5


class ClusterJobs(KubernetesJobs):
    """A JobRunner. What a process would read from its standard input is a Secret of the Job's, mounted as the
    file `INPUT_DIRECTORY/INPUT_KEY`, empty where there is nothing to read; the Secret goes with its Job."""

    def __init__(self, client: KubernetesClient, settings: KubernetesSettings) -> None:
        super().__init__(client, settings, node="", uid="")

    @property
    def input_file(self) -> str:
        return f"{INPUT_DIRECTORY}/{INPUT_KEY}"

    def start(self, spec: JobSpec) -> None:
        super().start(replace(spec, stdin=b""))
        with translated_errors(), granted(self._client, self._settings, Feature.SERVING):
            try:
                # The pod waits for it. A second start leaves it as it is: the pod may have read it.
                self._client.create(self._secret(spec))
            except AlreadyExists:
                return

    def owners(self) -> Mapping[str, str]:
        """Return the owner of each of our jobs there, live or ended, by the job's name."""
        with answering():
            found = self._client.list(JOBS, namespace=self._namespace, labels=f"{MANAGED_BY}=slipway,{OWNER}")
        return {one["metadata"]["name"]: one["metadata"]["labels"][OWNER] for one in found.items}

    @property
    def _namespace(self) -> str:
        """Return the namespace of the workers, since no job is privileged."""
        return self._settings.namespace

    def _pod(self, spec: JobSpec, image: str) -> Object:
        """Raises OperationUnsupported without a machine that could run it."""
        machines = spec.container.machines
        if not machines:
            raise OperationUnsupported("No machine of the cluster can run this job.")
        pod = super()._pod(spec, image) | on_machines(machines)
        del pod["tolerations"]
        pod["terminationGracePeriodSeconds"] = GRACE_SECONDS
        secret = {"secretName": spec.name, "defaultMode": 0o440}
        pod["volumes"].append({"name": "input", "secret": secret})
        (container,) = pod["containers"]
        container["env"] = [one for one in container["env"] if one["name"] != "NODE_NAME"]
        container["volumeMounts"].append({"name": "input", "mountPath": INPUT_DIRECTORY, "readOnly": True})
        return pod

    def _secret(self, spec: JobSpec) -> Object:
        job = self._client.get(self._ref(spec.name))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": spec.name, "uid": job["metadata"]["uid"]}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": spec.name,
                "namespace": self._namespace,
                "labels": {MANAGED_BY: "slipway", OWNER: spec.owner},
                "ownerReferences": [owner],
            },
            "type": "Opaque",
            "data": {INPUT_KEY: base64.b64encode(spec.stdin).decode()},
        }
