"""A machine returns when the demanded check has passed on the repaired GPU, and all its GPUs are there."""

from typing import Any

import pytest

from gpu_health.healing.facts import WorkProgress
from gpu_health.healing.verifying import VerificationDemand, verdict
from gpu_health.policy.rule import Verification
from gpu_health.signals.check_reports import read_report
from tests.gpu_health.healing import Ward, checked

EIGHT = [{"uuid": f"GPU-{index}", "bus_id": f"0000:0{index}:00"} for index in range(8)]
REPAIRED = EIGHT[3]
OTHERS = [gpu for gpu in EIGHT if gpu is not REPAIRED]
NEW = {"uuid": "GPU-new", "bus_id": REPAIRED["bus_id"]}
REDUCED = {"name": "all_reduce", "outcome": "passed", "words": "470 GB/s"}


def judge(report: dict[str, Any], **given: Any) -> tuple[WorkProgress, str]:
    demand = {
        "verification": Verification.DCGM_DIAGNOSTIC,
        "fault": "xid.79",
        "gpu_uuid": REPAIRED["uuid"],
        "gpu_bus_id": REPAIRED["bus_id"],
        "expected_gpus": 8,
    }
    work = verdict(read_report(report), VerificationDemand(**(demand | given)))
    return work.progress, work.words


def network(**outcomes: str) -> dict[str, Any]:
    """A report of the all-reduce, and of the ports of the network."""
    ports = [
        {"name": "infiniband", "outcome": outcome, "words": "so it is", "port": f"{port}/1"}
        for port, outcome in outcomes.items()
    ]
    return checked(*EIGHT, names=()) | {"checks": [REDUCED, *ports]}


@pytest.mark.any_database
class TestVerdict:
    def test_the_demanded_check_on_the_repaired_gpu_verifies_the_machine(self) -> None:
        progress, words = judge(checked(*EIGHT))

        assert progress is WorkProgress.SUCCEEDED
        assert REPAIRED["uuid"] in words

    def test_seven_healthy_gpus_say_nothing_of_the_eighth(self) -> None:
        assert judge(checked(*OTHERS)) == (
            WorkProgress.FAILED,
            "Only 7 of 8 GPUs were there to be checked.",
        )
        progress, words = judge(checked(*OTHERS), expected_gpus=0)
        assert progress is WorkProgress.FAILED
        assert words == "GPU-3 (0000:03:00) is not among the 7 GPUs that were checked."

    def test_a_replaced_gpu_is_known_by_its_place_and_the_count(self) -> None:
        progress, words = judge(checked(*OTHERS, NEW))
        assert progress is WorkProgress.SUCCEEDED
        assert words.endswith("It stands where GPU-3 was.")

        assert judge(checked(*OTHERS, NEW), gpu_bus_id="")[0] is WorkProgress.IMPOSSIBLE

    def test_a_gpu_without_a_known_uuid_is_known_by_its_place(self) -> None:
        assert judge(checked(*EIGHT), gpu_uuid="")[0] is WorkProgress.SUCCEEDED
        assert judge(checked(*OTHERS), gpu_uuid="", expected_gpus=0)[0] is WorkProgress.FAILED

    def test_a_fault_of_the_whole_machine_asks_for_every_gpu(self) -> None:
        machine = {"gpu_uuid": "", "gpu_bus_id": ""}
        assert judge(checked(*EIGHT), **machine)[0] is WorkProgress.SUCCEEDED

        half = checked(*EIGHT)
        half["checks"] = [check for check in half["checks"] if check["gpu_uuid"] != "GPU-5"]
        progress, words = judge(half, **machine)
        assert progress is WorkProgress.IMPOSSIBLE
        assert "not run on GPU-5" in words

    @pytest.mark.parametrize("outcome", ["skipped", "warned", "measured", "inconclusive", "unheard of"])
    def test_what_has_not_passed_is_a_persons(self, outcome: str) -> None:
        progress, words = judge(checked(*EIGHT, dcgm_diagnostic=outcome))

        assert progress is WorkProgress.IMPOSSIBLE
        assert "dcgm_diagnostic said so." in words

    def test_another_check_does_not_stand_in_for_the_demanded_one(self) -> None:
        progress, words = judge(checked(*EIGHT, names=("matrix_products", "memory_patterns")))

        assert progress is WorkProgress.IMPOSSIBLE
        assert words.startswith("dcgm_diagnostic was not run on GPU-3")

    def test_the_check_that_found_the_fault_must_pass_as_well(self) -> None:
        fault = {"fault": "check.compute", "verification": Verification.CHECK_JOB}
        assert judge(checked(*EIGHT), **fault)[1].startswith("compute was not run on GPU-3")

        names = ("matrix_products", "memory_patterns", "compute")
        assert judge(checked(*EIGHT, names=names), **fault)[0] is WorkProgress.SUCCEEDED

    def test_a_failure_of_any_gpu_keeps_the_machine_out(self) -> None:
        bad = checked(EIGHT[0], matrix_products="failed")
        report = bad | {"gpus": EIGHT, "checks": [*checked(*EIGHT)["checks"], *bad["checks"]]}

        assert judge(report) == (WorkProgress.FAILED, "The check failed: matrix_products said so.")

    def test_gpus_that_mig_splits_are_a_persons(self) -> None:
        assert judge(checked(*OTHERS), is_split=True)[0] is WorkProgress.IMPOSSIBLE

    def test_bandwidth_of_nccl_counts_only_when_it_was_judged(self) -> None:
        nccl = {"verification": Verification.NCCL_BANDWIDTH}
        assert judge(checked(*EIGHT, names=()) | {"checks": [REDUCED]}, **nccl)[0] is WorkProgress.SUCCEEDED

        for outcome in ("skipped", "measured"):
            report = checked(*EIGHT, names=()) | {"checks": [REDUCED | {"outcome": outcome}]}
            assert judge(report, **nccl)[0] is WorkProgress.IMPOSSIBLE

    def test_a_fault_of_infiniband_asks_for_traffic_over_its_port(self) -> None:
        fault = {
            "verification": Verification.NCCL_BANDWIDTH,
            "fault": "ib.port_down",
            "gpu_uuid": "",
            "gpu_bus_id": "",
            "ports": frozenset({"mlx5_2/1"}),
        }
        assert judge(network(), **fault)[1] == "infiniband was not run on the port mlx5_2/1."
        assert judge(network(mlx5_0="passed"), **fault)[0] is WorkProgress.IMPOSSIBLE
        assert judge(network(mlx5_0="passed", mlx5_2="skipped"), **fault)[0] is WorkProgress.IMPOSSIBLE
        assert (
            judge(network(mlx5_0="passed", mlx5_2="failed") | {"passed": False}, **fault)[0]
            is WorkProgress.FAILED
        )
        assert judge(network(mlx5_0="skipped", mlx5_2="passed"), **fault)[0] is WorkProgress.SUCCEEDED
        assert (
            judge(network(mlx5_0="skipped"), **fault | {"ports": frozenset()})[0] is WorkProgress.IMPOSSIBLE
        )


@pytest.mark.django_db
def test_a_machine_whose_check_skipped_what_was_demanded_waits_for_a_person() -> None:
    ward = Ward()
    ward.programs.checks = [checked({"uuid": "GPU-fake", "bus_id": "0000:9b:00"}, memory_patterns="skipped")]
    ward.finding()

    ward.run(lambda: ward.incident.hold == "verification")

    assert ward.operations.cordoned
    assert ward.incident.hold_reason == (
        "memory_patterns was skipped on GPU-fake (0000:9b:00): memory_patterns said so. "
        "A person says whether the machine returns."
    )


@pytest.mark.django_db
def test_a_machine_does_not_return_by_a_check_of_its_other_gpus() -> None:
    ward = Ward()
    ward.programs.checks = [checked(*OTHERS)]
    ward.finding()

    ward.run("needs_person")

    assert ward.operations.cordoned
    assert "GPU-fake (0000:9b:00) is not among the 7 GPUs" in "".join(
        ward.incident.timeline.values_list("words", flat=True)
    )
