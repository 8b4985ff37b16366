"""Reasons why a worker's pod does not run. Pods as a real API server showed them (1.36)."""

import json
from pathlib import Path
from typing import Any

import pytest

from clusters.backends.base import ObservedState
from clusters.backends.kubernetes.pods import worker_of
from clusters.backends.kubernetes.scheduling import why_unschedulable

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_pods.json").read_text())


@pytest.mark.parametrize(
    ("pod", "state", "words"),
    [
        ("ready", "ready", ""),
        (
            "image that is not there",
            "failed",
            "Its image registry.example/none:1 cannot be pulled: failed to pull and unpack image",
        ),
        (
            "no GPU free",
            "starting",
            "None of the 7 machines can take it: 2 machines with taints that it does not tolerate; "
            "too little nvidia.com/gpu free on 5 machines.",
        ),
        (
            "taint not tolerated",
            "starting",
            "None of the 8 machines can take it: 3 machines without the labels that it asks for; "
            "5 machines with taints that it does not tolerate.",
        ),
        (
            "too much memory",
            "starting",
            "None of the 7 machines can take it: too little memory free on 2 machines; "
            "5 machines with taints that it does not tolerate.",
        ),
        ("no volume claim", "starting", "Its volume claim absent does not exist."),
        ("crash loop", "starting", "It ended with exit status 1. It was started 3 times."),
        ("out of memory", "starting", "It was killed for using more memory than it may (OOMKilled)."),
        ("container creating", "starting", "Its container is being made"),
        ("never ready", "starting", "It loads its model, or does not answer yet."),
    ],
)
def test_what_a_real_cluster_says_of_a_pod_is_told_in_words(pod: str, state: str, words: str) -> None:
    worker = worker_of(RECORDED[pod])
    assert worker.state == state
    assert worker.reason.startswith(words)
    assert bool(worker.reason) == (state != "ready")


def crashed(times: int) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads(json.dumps(RECORDED["crash loop"]))
    pod["status"]["containerStatuses"][0]["restartCount"] = times
    return pod


def test_a_worker_that_ends_again_and_again_is_given_up() -> None:
    assert worker_of(crashed(2)).state == ObservedState.STARTING
    assert worker_of(crashed(3)).state == ObservedState.FAILED


def test_a_registry_that_refuses_names_the_pull_secret() -> None:
    pod: dict[str, Any] = json.loads(json.dumps(RECORDED["image that is not there"]))
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"] = (
        "failed to authorize: rpc error: code = Unknown desc = 401 Unauthorized"
    )
    assert "Name a pull secret of its namespace" in worker_of(pod).reason


def test_a_pod_that_is_being_ended_says_who_ends_it() -> None:
    pod: dict[str, Any] = json.loads(json.dumps(RECORDED["ready"]))
    pod["metadata"]["deletionTimestamp"] = "2026-11-22T09:00:00Z"
    pod["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    )
    worker = worker_of(pod)
    assert (worker.state, worker.reason) == ("draining", "A pod of higher priority takes its place.")


def test_a_ready_container_on_a_silent_machine_is_not_ready() -> None:
    pod: dict[str, Any] = json.loads(json.dumps(RECORDED["ready"]))
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    assert worker_of(pod).state == ObservedState.STARTING


def test_an_init_container_that_fails_is_named_with_its_last_words() -> None:
    pod: dict[str, Any] = json.loads(json.dumps(RECORDED["container creating"]))
    pod["status"]["initContainerStatuses"] = [
        {
            "name": "model-files",
            "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "model.safetensors: 404"}},
        }
    ]
    worker = worker_of(pod)
    assert worker.state == ObservedState.FAILED
    assert worker.reason.startswith(
        "Its container model-files ended with exit status 1: model.safetensors: 404"
    )


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, "
            "2 node(s) were unschedulable. preemption: not eligible due to preemptionPolicy=Never.",
            "None of the 3 machines can take it: 1 machine with taints that it does not tolerate "
            "nvidia.com/gpu: present; 2 machines cordoned.",
        ),
        (
            "0/1 nodes are available: 1 Too many pods.",
            "None of the 1 machine can take it: 1 machine with no room for another pod.",
        ),
        ("no nodes available to schedule pods", "No machine was found for it: no nodes available"),
        (
            "0/2 nodes are available: 2 node(s) were struck by lightning.",
            "None of the 2 machines can take it: 2 machines: struck by lightning.",
        ),
    ],
)
def test_what_the_scheduler_says_is_told_and_what_is_not_known_is_repeated(message: str, words: str) -> None:
    assert why_unschedulable(message).startswith(words)
