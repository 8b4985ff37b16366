"""Runs the pods of one machine of the fake cluster, as processes of this computer.

Each pod has an address of its own in 127.0.0.0/8 (Linux), so that each may listen on the same port. An image
of `registry.invalid` cannot be pulled.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kube.base import KubernetesClient, Object
from kube.errors import NotFound, ObjectChanged
from kube.fake.commands import expanded, mapped
from kube.fake.events import Recorder
from kube.fake.handlers import is_ready, pre_stop_seconds
from kube.fake.surroundings import EVERYWHERE, MissingReference, Surroundings
from kube.resources import PODS, Ref

PROBE_SECONDS = 0.5
FIRST_BACK_OFF_SECONDS = 1.0
LONGEST_BACK_OFF_SECONDS = 30.0
BACK_OFF_TOLD_SECONDS = 15.0
"""After which a kubelet tells of the same trouble again."""
STABLE_SECONDS = 60.0
"""A container that ran so long begins its back-off anew."""
LOG_TAIL_BYTES = 1_000_000
MESSAGE_BYTES = 2_048
VOLUMES_EVERY_SECONDS = 5.0
"""A real one takes a minute or two to bring a changed Secret or ConfigMap into running pods."""
_NO_REGISTRY = "registry.invalid/"


@dataclass
class _Container:
    """A container of a pod that has run, or is to."""

    spec: Object
    is_init: bool
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restarts: int = 0
    in_a_row: int = 0
    start_at: float = 0.0
    ended: Object | None = None
    """The state of its last process, as the API shows it."""
    is_done: bool = False
    lacks: str = ""
    """Why it could not be made."""
    is_ready: bool = False
    is_told: bool = False
    """To end."""
    probed_at: float = 0.0


@dataclass
class _Pod:
    ref: Ref
    uid: str
    address: str
    directory: Path
    containers: list[_Container] = field(default_factory=list)
    began: str = ""
    end_at: float | None = None
    asked_at: float = 0.0
    """When it was to end."""
    volumes_at: float = 0.0
    """When its volumes of Secrets and ConfigMaps were last written."""
    told: Object = field(default_factory=dict)
    item: Object = field(default_factory=dict)
    """As the API had it last."""


class Kubelet:
    """The kubelet of one machine. `tick` does what is due; nothing happens in between."""

    def __init__(
        self,
        client: KubernetesClient,
        node: str,
        root: Path,
        addresses: Iterator[str],
        project: Path,
        *,
        events: Recorder,
        is_cut_off: Callable[[], bool],
        entrypoints: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`root`: what the machine's disk is. `project`: where its processes run; cut off, they go on.
        `entrypoints`: by the beginning of an image's name, what a container without a command runs."""
        self._client = client
        self._node = node
        self._root = root
        self._addresses = addresses
        self._project = project
        self._pods: dict[str, _Pod] = {}
        self._events = events
        self._is_cut_off = is_cut_off
        self._entrypoints = entrypoints or {}
        self._said_at: dict[tuple[str, ...], float] = {}

    def tick(self) -> None:
        if self._is_cut_off():
            return
        found = self._client.list(PODS, fields=f"spec.nodeName={self._node}").items
        there = {item["metadata"]["uid"]: item for item in found}
        for uid, item in there.items():
            if uid not in self._pods:
                self._pods[uid] = self._made(item)
            self._pods[uid].item = item
            self._step(self._pods[uid], item)
        for uid in self._pods.keys() - there.keys():
            self._kill(self._pods.pop(uid))

    def stop(self) -> None:
        for pod in self._pods.values():
            self._kill(pod)

    def log(self, namespace: str, name: str, container: str = "") -> str | None:
        """The end of what a container wrote, the last where none is named; None: it is none of this
        machine's."""
        for pod in self._pods.values():
            if (pod.ref.namespace, pod.ref.name) == (namespace, name):
                named = [one for one in pod.containers if one.spec["name"] == container]
                path = (named or pod.containers)[-1].log
                return path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if path.exists() else ""
        return None

    def _made(self, item: Object) -> _Pod:
        metadata, spec = item["metadata"], item["spec"]
        directory = self._root / "pods" / metadata["uid"]
        directory.mkdir(parents=True, exist_ok=True)
        ref = Ref(PODS, metadata["name"], metadata["namespace"])
        pod = _Pod(ref, metadata["uid"], next(self._addresses), directory, began=_stamp())
        for is_init, containers in ((True, spec.get("initContainers") or ()), (False, spec["containers"])):
            pod.containers += [
                _Container(one, is_init, directory / f"{one['name']}.log") for one in containers
            ]
        return pod

    def _step(self, pod: _Pod, item: Object) -> None:
        if item["metadata"].get("deletionTimestamp"):
            self._end(pod, item)
            return
        if (now := time.monotonic()) - pod.volumes_at >= VOLUMES_EVERY_SECONDS:
            pod.volumes_at = now
            Surroundings(self._client, pod.ref.namespace, self._root).write_volumes(item, pod.directory)
        for container in pod.containers:
            if container.is_done:
                continue
            self._run(pod, container, item)
            if container.is_init:
                break
        self._tell(pod, item)

    def _run(self, pod: _Pod, container: _Container, item: Object) -> None:
        now = time.monotonic()
        process = container.process
        if process is None:
            image = container.spec["image"]
            if image.startswith(_NO_REGISTRY):
                self._say(
                    pod, container, "Failed", f'Failed to pull image "{image}": not found', warning=True
                )
                self._say(pod, container, "BackOff", f'Back-off pulling image "{image}"')
            elif container.restarts and now < container.start_at:
                which = f"{pod.ref.name}_{pod.ref.namespace}({pod.uid})"
                said = f"Back-off restarting failed container {container.spec['name']} in pod {which}"
                self._say(pod, container, "BackOff", said, warning=True)
            else:
                self._start(pod, container, item)
            return
        code = process.poll()
        if code is None:
            if not container.is_init and now - container.probed_at >= PROBE_SECONDS:
                container.probed_at, container.is_ready = now, is_ready(pod.address, container.spec)
                if not container.is_ready:
                    self._say(pod, container, "Unhealthy", "Readiness probe failed", warning=True)
            return
        container.process, container.is_ready = None, False
        container.ended = _ended(code, container)
        policy = item["spec"].get("restartPolicy", "Always")
        is_over = policy == "Never" or (policy == "OnFailure" and code == 0)
        if is_over or (container.is_init and code == 0):
            container.is_done = True
            return
        container.in_a_row = 1 if now - container.started_at > STABLE_SECONDS else container.in_a_row + 1
        wait = min(LONGEST_BACK_OFF_SECONDS, FIRST_BACK_OFF_SECONDS * 2.0 ** (container.in_a_row - 1))
        container.start_at = now + wait
        container.restarts += 1

    def _start(self, pod: _Pod, container: _Container, item: Object) -> None:
        try:
            container.process = self._started(pod, container, item)
        except MissingReference as missing:
            container.lacks = str(missing)
            self._say(pod, container, "Failed", f"Error: {missing}", warning=True)
            return
        container.lacks, container.started_at = "", time.monotonic()

    def _entrypoint(self, image: str) -> Sequence[str]:
        """Return the entrypoint of an image whose container names no command."""
        repository = image.partition("@")[0]
        return next((words for name, words in self._entrypoints.items() if repository.startswith(name)), ())

    def _started(self, pod: _Pod, container: _Container, item: Object) -> subprocess.Popen[bytes]:
        around = Surroundings(self._client, pod.ref.namespace, self._root)
        mounts = around.mounts(container.spec, item, pod.directory)
        told = {
            "metadata.name": pod.ref.name,
            "metadata.namespace": pod.ref.namespace,
            "metadata.uid": pod.uid,
            "spec.nodeName": self._node,
            "status.podIP": pod.address,
        }
        environment = os.environ | around.environment(
            container.spec, told=told, mounts=mounts, address=pod.address
        )
        words = [
            *(container.spec.get("command") or self._entrypoint(container.spec["image"])),
            *(container.spec.get("args") or ()),
        ]
        command = [
            mapped(expanded(part, environment), mounts).replace(EVERYWHERE, pod.address) for part in words
        ]
        if command and command[0] in ("python", "python3"):
            command[0] = sys.executable
        present = f'Container image "{container.spec["image"]}" already present on machine'
        for reason, said in (("Pulled", present), ("Created", "Container created")):
            self._say(pod, container, reason, said, after=0.0)
        self._say(pod, container, "Started", "Container started", after=0.0)
        with container.log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._project, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _end(self, pod: _Pod, item: Object) -> None:
        """End the pod: `preStop` sleeps, SIGTERM, SIGKILL when the grace time is over; then it is gone."""
        running = [one.process for one in pod.containers if one.process and one.process.poll() is None]
        now = time.monotonic()
        if pod.end_at is None:
            pod.end_at = now + float(item["metadata"].get("deletionGracePeriodSeconds") or 0)
            pod.asked_at = now
            for container in pod.containers:
                if container.process in running:
                    self._say(pod, container, "Killing", f"Stopping container {container.spec['name']}")
        for container in pod.containers:
            is_due = now >= pod.asked_at + pre_stop_seconds(container.spec) and not container.is_told
            if container.process in running and container.process is not None and is_due:
                container.is_told = True
                container.process.send_signal(signal.SIGTERM)
        if now >= pod.end_at:
            self._kill(pod)
        if all(process.poll() is not None for process in running):
            with suppress(NotFound, ObjectChanged):
                self._client.delete(pod.ref, uid=pod.uid, grace_seconds=0)

    def _kill(self, pod: _Pod) -> None:
        for container in pod.containers:
            if container.process and container.process.poll() is None:
                container.process.kill()
                container.process.wait()

    def _say(
        self,
        pod: _Pod,
        container: _Container,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        after: float = BACK_OFF_TOLD_SECONDS,
    ) -> None:
        """Again only when so many seconds have passed."""
        name, now = container.spec["name"], time.monotonic()
        key = (pod.uid, name, reason)
        if after and now < self._said_at.get(key, -after) + after:
            return
        self._said_at[key] = now
        path = f"spec.{'initContainers' if container.is_init else 'containers'}{{{name}}}"
        self._events.say(
            "kubelet", pod.item, reason, message, warning=warning, field_path=path, host=self._node
        )

    def _tell(self, pod: _Pod, item: Object) -> None:
        status = _status(pod)
        if status == pod.told:
            return
        before = {one["type"]: one for one in (item.get("status") or {}).get("conditions") or ()}
        for condition in status["conditions"]:
            same = before.get(condition["type"], {})
            is_same = same.get("status") == condition["status"]
            condition["lastTransitionTime"] = same.get("lastTransitionTime") if is_same else _stamp()
        ours = {condition["type"] for condition in status["conditions"]}
        others = [one for kind, one in before.items() if kind not in ours]
        change = {"status": status | {"conditions": [*others, *status["conditions"]]}}
        try:
            self._client.patch(pod.ref, change, subresource="status")
        except (NotFound, ObjectChanged):
            return
        pod.told = _status(pod)


def _status(pod: _Pod) -> Object:
    main = [one for one in pod.containers if not one.is_init]
    is_initialized = all(one.is_done for one in pod.containers if one.is_init)
    is_ready = is_initialized and all(one.is_ready for one in main)
    has_begun = any(one.process or one.restarts or one.is_done for one in main)
    not_ready = {"reason": "ContainersNotReady", "message": "containers with unready status: []"}
    return {
        "phase": _phase(main) if has_begun else "Pending",
        "podIP": pod.address,
        "podIPs": [{"ip": pod.address}],
        "hostIP": "127.0.0.1",
        "startTime": pod.began,
        "conditions": [
            {"type": "Initialized", "status": _word(is_initialized)},
            {"type": "Ready", "status": _word(is_ready)} | ({} if is_ready else not_ready),
            {"type": "ContainersReady", "status": _word(is_ready)} | ({} if is_ready else not_ready),
        ],
        "initContainerStatuses": [_container_status(one) for one in pod.containers if one.is_init],
        "containerStatuses": [_container_status(one, waits=not is_initialized) for one in main],
    }


def _phase(main: Sequence[_Container]) -> str:
    if not all(one.is_done for one in main):
        return "Running"
    return "Failed" if any(one.ended and one.ended["exitCode"] for one in main) else "Succeeded"


def _container_status(container: _Container, *, waits: bool = False) -> Object:
    state: Object
    if container.process:
        state = {"running": {"startedAt": _stamp(container.started_at)}}
    elif container.is_done:
        state = {"terminated": container.ended}
    elif container.spec["image"].startswith(_NO_REGISTRY):
        words = f'Back-off pulling image "{container.spec["image"]}": ErrImagePull: not found'
        state = {"waiting": {"reason": "ImagePullBackOff", "message": words}}
    elif container.lacks:
        state = {"waiting": {"reason": "CreateContainerConfigError", "message": container.lacks}}
    elif container.restarts:
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    else:
        state = {"waiting": {"reason": "PodInitializing" if waits else "ContainerCreating"}}
    return {
        "name": container.spec["name"],
        "image": container.spec["image"],
        "imageID": "",
        "ready": container.is_ready or (container.is_init and container.is_done),
        "started": container.is_ready,
        "restartCount": container.restarts,
        "state": state,
        "lastState": {"terminated": container.ended} if container.ended and not container.is_done else {},
    }


def _ended(code: int, container: _Container) -> Object:
    """A process that a signal ended has 128 and its number, as the container runtime says it."""
    last = (
        container.log.read_bytes()[-MESSAGE_BYTES:].decode(errors="replace") if container.log.exists() else ""
    )
    return {
        "exitCode": code if code >= 0 else 128 - code,
        "reason": "Completed" if code == 0 else "Error",
        "message": last if code else "",
        "startedAt": _stamp(container.started_at),
        "finishedAt": _stamp(),
    }


def _word(is_so: bool) -> str:
    return "True" if is_so else "False"


def _stamp(monotonic: float | None = None) -> str:
    at = time.time() if monotonic is None else time.time() - time.monotonic() + monotonic
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
