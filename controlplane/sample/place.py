"""Where the sample plays: on this machine, on the cluster that it brings, or on one of yours."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.embedded.sample_cluster import CLUSTER, NAMESPACE, agent_tokens
from controlplane.sample.failure import SampleFailed
from kube.base import KubernetesClient as KubeClient
from kube.errors import ApiForbidden, BadConfig, KubeError, NotFound
from kube.fake.gateway.controller import GATEWAY
from kube.fake.gateway.controller import NAMESPACE as GATEWAYS_NAMESPACE
from kube.kubeconfig import access_of
from kube.resources import GATEWAYS, NAMESPACES, Ref
from slipway.cli.kubeconfig import whole_kubeconfig
from slipway.client import Client, Document, ServerRefused, at

CHECKED_WITHIN_SECONDS = 120.0
ADDRESS_WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.5
IMAGE = "docstring-workers"
"""Of the runtime image that the sample adds for a cluster."""
STAND_IN = f"slipway/worker@sha256:{'0' * 64}"
"""Where containers are processes of this machine: nobody pulls it."""
OWN_NAMESPACE = "slipway-sample"
"""On a cluster of yours."""
GRANT = "Grant it with what `slipway cluster manifest --feature gateway` prints."
HOW_TO = "docs/KUBERNETES.md says how."


@dataclass(frozen=True, slots=True)
class SampleTarget:
    """`body`: what the service is asked for beside its model. `gateway_url`: where clients reach it."""

    service: str
    gateway_url: str
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnClusterOptions:
    """Options of a person who plays on a cluster of theirs."""

    kubeconfig: Path
    namespace: str = OWN_NAMESPACE
    image: str = ""
    """Of a worker, by digest."""
    gateway: str = ""
    """NAMESPACE/NAME of a Gateway; empty: the only one there is."""
    console: str = ""
    """Where Slipway is reached on its own machine."""
    store_url: str = ""
    """Where pods reach Slipway; empty: nobody has said."""


def on_this_machine(gateway_url: str, *, service: str) -> SampleTarget:
    return SampleTarget(service=service, gateway_url=gateway_url)


def on_the_samples_cluster(
    client: Client, kubeconfig: Path, *, console: str, gateway_url: str, say: Callable[[str], None]
) -> SampleTarget:
    """`gateway_url`: where its gateway answers, which runs here. Raises SampleFailed."""
    _ensure_cluster(
        client,
        CLUSTER,
        {
            "settings": {"namespace": NAMESPACE, "store_url": console, "jobs_image": STAND_IN},
            "provider": "this machine",
            "labels": {"purpose": "sample"},
            "secrets": {"kubeconfig": kubeconfig.read_text()},
        },
        say,
    )
    _ensure_agents(client, agent_tokens(kubeconfig.parents[1]))
    mark = {"cluster": CLUSTER, "is_test": True, "reason": "Its machines are imitated."}
    client.post(at("gpu-health", "drills", "mark"), mark)
    gateway = Ref(GATEWAYS, GATEWAY, GATEWAYS_NAMESPACE)
    _ensure_gateway(client, CLUSTER, gateway, NAMESPACE, gateway_url)
    words = "Stands in for an image: containers of the sample's cluster are processes of this machine."
    # Its GPUs only count; a worker there looks for one, finds none and takes the processor.
    _ensure_image(client, STAND_IN, words, cuda_version="12.8")
    say(f"The sample's cluster: {client.url}/fleet/clusters/{CLUSTER}/")
    return SampleTarget(
        service=f"docs-{CLUSTER}",
        gateway_url=gateway_url,
        body={"cluster": CLUSTER, "device": "auto", "resources": {"gpus_per_worker": 1}},
    )


def on_your_cluster(client: Client, wish: OwnClusterOptions, *, say: Callable[[str], None]) -> SampleTarget:
    """Nothing outside of `wish.namespace` is made or changed. Raises SampleFailed saying what is missing,
    CommandFailed for files that the kubeconfig names in vain."""
    # Only here, not where the sample plays on this machine: it needs the package `kubernetes`.
    from kube.real.transport import connect

    name = "kubernetes"
    text = whole_kubeconfig(wish.kubeconfig, named="KUBECONFIG")
    try:
        access = access_of(text)
        say(f"KUBECONFIG names the cluster at {access.server}: the sample runs there, in {wish.namespace}.")
        gateway = the_gateway(connect(access), wish)
    except BadConfig as error:
        raise SampleFailed(f"{wish.kubeconfig}: {error}") from None
    except KubeError as error:
        raise SampleFailed(f"The cluster does not do what the sample needs: {error}") from None
    _ensure_cluster(
        client,
        name,
        {
            # Drills are jobs on machines; the worker's image has what they run.
            "settings": {
                "namespace": wish.namespace,
                "store_url": wish.store_url,
                "jobs_image": wish.image,
            },
            "labels": {"purpose": "sample"},
            "secrets": {"kubeconfig": text},
        },
        say,
    )
    _ensure_gateway(client, name, gateway, wish.namespace, "")
    gateway_url = _address(client, name, gateway)
    _ensure_image(client, wish.image, "A worker, for the sample.")
    say(f"Your cluster: {client.url}/fleet/clusters/{name}/")
    return SampleTarget(
        service=f"docs-{name}",
        gateway_url=gateway_url,
        body={"cluster": name, "device": "cpu", "resources": {"gpus_per_worker": 0}},
    )


def the_gateway(cluster: KubeClient, wish: OwnClusterOptions) -> Ref:
    """Check that traffic comes through. The account of the manifest is enough where the Gateway is named.
    Raises SampleFailed naming all that is missing, KubeError.
    """
    lacks = []
    # Who may not read namespaces is told by the checks of the cluster that it is missing.
    with suppress(ApiForbidden):
        try:
            cluster.get(Ref(NAMESPACES, wish.namespace))
        except NotFound:
            lacks.append(
                f"There is no namespace {wish.namespace}: kubectl create namespace {wish.namespace}, "
                "or name another one with --namespace."
            )
    if not wish.image:
        lacks.append(f"Its machines need a worker's image, by digest: --image. {HOW_TO}")
    if not wish.store_url:
        lacks.append(
            f"Pods do not reach Slipway at {wish.console}: set SLIPWAY_BIND and SLIPWAY_PUBLIC_URL, or say "
            "where they do with --store-url."
        )
    gateways: list[Ref] = []
    if not cluster.serves(GATEWAYS):
        lacks.append("The Gateway API is not installed: install it, and a controller of your choice.")
    else:
        gateways, why = _gateways(cluster, wish.gateway)
        lacks += [why] if why else []
    if lacks:
        raise SampleFailed("The sample cannot run on your cluster yet.\n  " + "\n  ".join(lacks))
    return gateways[0]


def _gateways(cluster: KubeClient, named: str) -> tuple[list[Ref], str]:
    """The one to take, or why there is none."""
    namespace, slash, name = named.partition("/")
    if named and not (namespace and slash and name):
        return [], f"--gateway {named} is not of the form NAMESPACE/NAME."
    try:
        if named:
            ref = Ref(GATEWAYS, name, namespace)
            cluster.get(ref)
            return [ref], ""
        found = [
            Ref(GATEWAYS, one["metadata"]["name"], one["metadata"]["namespace"])
            for one in cluster.list(GATEWAYS).items
        ]
    except NotFound:
        return [], f"There is no Gateway {named}."
    except ApiForbidden as error:
        if named:
            return [], f"The account may not read the Gateway {named}: {error} {GRANT}"
        return [], "The account may not list the Gateways of all namespaces: name yours with --gateway."
    if not found:
        return [], "There is no Gateway that traffic could come through: make one of the class you have."
    if len(found) > 1:
        names = ", ".join(f"{one.namespace}/{one.name}" for one in found)
        return [], f"There are several Gateways, {names}: say which one with --gateway."
    return found, ""


def _ensure_cluster(client: Client, name: str, wanted: Document, say: Callable[[str], None]) -> None:
    """Added or changed, and checked."""
    address = at("clusters", name)
    before = _found(client, address)
    if before is None:
        say(f"Adding the cluster {name}.")
        client.create(at("clusters"), {"name": name, "kind": "kubernetes"} | wanted)
    else:
        client.change(address, lambda _: wanted)
    seen = _checked(client, name)
    failed = [one for one in seen["checks"] if one["result"] == "failed"]
    if failed or seen["state"] not in ("ready", "warning"):
        faults = [f"{one['name']}: {one['detail']}" for one in failed] or [seen["problem"] or seen["state"]]
        raise SampleFailed(
            f"The cluster {name} cannot be used: {client.url}/fleet/clusters/{name}/\n  "
            + "\n  ".join(faults)
        )


def _ensure_agents(client: Client, files: Mapping[str, Path]) -> None:
    """`files`: by the uid of a machine, where its agent, which runs already, waits for its token."""
    nodes = at("clusters", CLUSTER, "nodes")
    deadline = time.monotonic() + CHECKED_WITHIN_SECONDS
    while not files.keys() <= (seen := {one["uid"]: one["id"] for one in client.each(nodes)}).keys():
        if time.monotonic() > deadline:
            raise SampleFailed(f"The cluster {CLUSTER} shows none of its machines: {client.url}/fleet/")
        time.sleep(POLL_SECONDS)
    for uid, file in files.items():
        body = {"days": 365, "reason": "Its drills are seen by an agent."}
        # Never twice under an idempotency key: a secret is told once.
        token = client.post(at("clusters", CLUSTER, "nodes", seen[uid], "agent-token"), body)["token"]
        fresh = file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(token)
        fresh.replace(file)


def _checked(client: Client, name: str) -> Document:
    deadline = time.monotonic() + CHECKED_WITHIN_SECONDS
    while (seen := client.get(at("clusters", name)))["state"] in ("checking", "unavailable"):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return seen


def _ensure_gateway(client: Client, name: str, gateway: Ref, namespace: str, public_url: str) -> None:
    """Set the gateway; one that somebody has set otherwise, such as with Prometheus, stays. `public_url`:
    where clients reach it; empty: it says so itself.
    """
    address = at("clusters", name, "gateway")
    seen = _found(client, address)
    if seen is None or (public_url and seen["public_url"] != public_url):
        settings = {"gateway": gateway.name, "gateway_namespace": gateway.namespace, "namespace": namespace}
        body = {"kind": "gateway_api", "metrics": "workers", "settings": settings}
        client.put(address, body | ({"public_url": public_url} if public_url else {}))


def _address(client: Client, name: str, gateway: Ref) -> str:
    """Return the address for clients. Raises SampleFailed when nobody has said."""
    deadline = time.monotonic() + ADDRESS_WITHIN_SECONDS
    while not (seen := client.get(at("clusters", name, "gateway")))["public_url"]:
        if time.monotonic() > deadline:
            raise SampleFailed(
                f"The Gateway {gateway.namespace}/{gateway.name} does not say where clients reach it, in its "
                f"status.addresses. {seen['detail']}\n  You can: slipway cluster gateway set {name} "
                "--public-url URL"
            )
        time.sleep(POLL_SECONDS)
    return str(seen["public_url"])


def _ensure_image(client: Client, reference: str, description: str, **more: str) -> None:
    if _found(client, at("images", IMAGE)) is None:
        body = {
            "name": IMAGE,
            "engine": "transformers",
            "engine_version": "1",
            "reference": reference,
            "formats": ["safetensors"],
            "runs_on_cpu": True,
            "description": description,
            **more,
        }
        client.create(at("images"), body)


def _found(client: Client, address: Any) -> Document | None:
    try:
        return client.get(address)
    except ServerRefused as refused:
        if refused.status == 404:
            return None
        raise
