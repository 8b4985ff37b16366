"""Readings, rules and the state of a node in, verdicts out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_health.judge import FaultVerdict, JudgedNode, VerdictOutcome, judge
from gpu_health.policy.presets import PRESETS, complete, preset
from gpu_health.policy.rule import (
    Citation,
    Conditions,
    DrainLevel,
    FaultRule,
    Mode,
    RemediationAction,
    Severity,
)
from gpu_health.signals.reading import GpuReading, ReadingKind, ReadingSource
from tests.gpu_health.readings import GPU, asks_for, seen, xid

DEFAULT = preset("default")
R570 = JudgedNode(driver_version="570.86.15")
R550 = JudgedNode(driver_version="550.54.14")


def one(
    *readings: GpuReading, rules: tuple[FaultRule, ...] = DEFAULT, state: JudgedNode | None = None
) -> FaultVerdict:
    (verdict,) = judge(readings, rules, state)
    return verdict


def rule(fault: str, *ladder: RemediationAction, **more: object) -> FaultRule:
    citation = Citation(source="field", says="a test")
    given = {"severity": Severity.FATAL, "mode": Mode.ACT} | more
    return FaultRule(name=f"test/{fault}", fault=fault, ladder=ladder, citation=citation, **given)  # type: ignore[arg-type]


def test_a_fault_is_judged_by_its_rule_which_names_its_source() -> None:
    verdict = one(xid(79, 5.0))

    assert (verdict.outcome, verdict.severity) == (VerdictOutcome.PROPOSE, Severity.FATAL)
    assert (verdict.ladder, verdict.drain) == (
        (RemediationAction.REBOOT, RemediationAction.POWER_CYCLE, RemediationAction.REPLACE),
        DrainLevel.NODE,
    )
    assert verdict.citation == "nvidia: RESTART_BM; CONTACT_SUPPORT"
    assert verdict.device == GPU


@given(st.integers(173, 9_999), st.sampled_from([one.name for one in PRESETS]))
def test_a_fault_that_nobody_knows_alerts_and_never_acts(number: int, name: str) -> None:
    verdict = one(xid(number if number != 173 else 999), rules=preset(name))

    assert (verdict.outcome, verdict.ladder, verdict.rule) == (
        VerdictOutcome.ALERT,
        (RemediationAction.ALERT,),
        "",
    )


@pytest.mark.parametrize(("hours", "outcome"), [(23, VerdictOutcome.PROPOSE), (25, VerdictOutcome.RECORD)])
def test_a_second_exception_of_one_tpc_within_a_day_asks_for_a_diagnostic(
    hours: int, outcome: VerdictOutcome
) -> None:
    again = xid(13, hours * 3_600.0, gpc="7", tpc="2")
    verdict = one(xid(13, 0.0, gpc="7", tpc="2"), again)

    assert verdict.outcome is outcome
    assert (RemediationAction.FIELD_DIAGNOSTIC in verdict.ladder) is (outcome is VerdictOutcome.PROPOSE)


def test_exceptions_of_several_tpcs_and_gpus_are_not_added_up() -> None:
    verdicts = judge(
        [xid(13, 0.0, gpc="7", tpc="2"), xid(13, 1.0, gpc="7", tpc="3"), xid(13, 2.0, gpu="0000:05:00")],
        DEFAULT,
    )

    assert [verdict.ladder for verdict in verdicts] == [(RemediationAction.RESTART_APP,)] * 2


CRASH = {"gpc": "7", "tpc": "2", "pid": "4711", "process": "train"}


@pytest.mark.parametrize(
    "again",
    [
        xid(13, 0.4, **CRASH),
        xid(13, 3_600.0, **CRASH | {"pid": "4712"}),
        xid(13, 0.4, gpc="7", tpc="2", pid="4711"),
        seen("xid.13", 45.0, gpu=GPU, source=ReadingSource.DCGM, gpc="7", tpc="2"),
    ],
    ids=["the same crash", "the same application", "the same process without a name", "another source"],
)
def test_one_crash_told_twice_and_one_application_twice_condemn_no_gpu(again: GpuReading) -> None:
    assert one(xid(13, 0.0, **CRASH), again).ladder == (RemediationAction.RESTART_APP,)


def test_two_applications_on_one_tpc_condemn_it() -> None:
    verdict = one(xid(13, 0.0, **CRASH), xid(13, 60.0, **CRASH | {"pid": "1", "process": "other"}))

    assert verdict.ladder[0] is RemediationAction.FIELD_DIAGNOSTIC


@given(st.lists(st.floats(0, 9.9), min_size=1, max_size=50), st.sampled_from([31, 43, 74]))
def test_however_many_lines_a_process_writes_at_once_they_count_once(times: list[float], number: int) -> None:
    lines = [xid(number, at, pid="4711", process="<unknown>") for at in sorted(times)]
    first = one(lines[0])

    assert (one(*lines).outcome, one(*lines).ladder) == (first.outcome, first.ladder)


def test_a_link_that_fails_three_times_in_a_week_counts_whoever_was_running() -> None:
    verdict = one(*(xid(74, day * 86_400.0, pid="4711", link="3", bucket="fault") for day in range(3)))

    assert verdict.ladder == (RemediationAction.REPLACE,)


def test_a_cleanup_that_names_its_cause_is_not_alone() -> None:
    assert one(xid(45, 100.0, caused_by="xid.149")).outcome is VerdictOutcome.NONE


@pytest.mark.parametrize("name", [one.name for one in PRESETS])
@pytest.mark.parametrize("number", range(144, 151))
def test_an_nvlink_error_that_could_not_be_decoded_alerts(number: int, name: str) -> None:
    verdict = one(xid(number, bucket="undecoded"), rules=complete(name))

    assert verdict.outcome not in (VerdictOutcome.NONE, VerdictOutcome.WAIT)


def test_a_form_that_no_rule_speaks_of_is_not_hidden_by_one_that_is_ignored() -> None:
    ignored, unknown = xid(149, 1.0, bucket="ignore"), xid(149, 2.0, bucket="undecoded")

    assert one(ignored).outcome is VerdictOutcome.NONE
    assert one(unknown, ignored).outcome is one(ignored, unknown).outcome is VerdictOutcome.ALERT


@pytest.mark.parametrize("fault", ["unread.xid", "unread.sxid", "sxid.unrated"])
def test_a_line_that_could_not_be_read_is_told_and_never_acts(fault: str) -> None:
    assert one(seen(fault)).outcome is VerdictOutcome.RECORD
    if fault.startswith("unread"):
        with pytest.raises(ValueError, match="could not be read"):
            rule(fault, RemediationAction.REBOOT)


def test_a_cleanup_alone_restarts_the_fabric_manager_and_beside_another_fault_does_nothing() -> None:
    alone = one(xid(45, 100.0))
    beside = judge([xid(45, 100.0), xid(48, 101.0)], DEFAULT)
    after = judge([xid(48, 99.0), xid(45, 100.0)], DEFAULT)
    long_after = judge([xid(48, 0.0), xid(45, 100.0)], DEFAULT)

    assert alone.ladder == (RemediationAction.RESTART_FABRIC_MANAGER,)
    assert {v.fault: v.outcome for v in beside}["xid.45"] is VerdictOutcome.NONE
    assert {v.fault: v.outcome for v in after}["xid.45"] is VerdictOutcome.NONE
    assert {v.fault: v.outcome for v in long_after}["xid.45"] is VerdictOutcome.RECORD
    assert alone.drain is DrainLevel.NODE, "CUDA jobs end with the fabric manager"


def test_the_drivers_own_verdict_outranks_the_table_from_r570_on() -> None:
    readings = [xid(119, 1.0), asks_for(2, 2.0)]
    new = {verdict.fault: verdict for verdict in judge(readings, DEFAULT, R570)}["xid.119"]
    old = {verdict.fault: verdict for verdict in judge(readings, DEFAULT, R550)}["xid.119"]

    assert (new.ladder, new.drain) == ((RemediationAction.REBOOT,), DrainLevel.NODE)
    assert "outranks" in " ".join(new.reasons)
    assert old.ladder[0] is RemediationAction.RESET_GPU


@pytest.mark.parametrize(("asked_at", "acts"), [(0.5, True), (2.0, False)])
def test_a_driver_that_asks_for_nothing_is_heard_when_it_says_so_after_the_fault(
    asked_at: float, acts: bool
) -> None:
    readings = sorted([xid(119, 1.0), asks_for(0, asked_at)], key=lambda reading: reading.at)
    verdict = {one.fault: one for one in judge(readings, DEFAULT, R570)}["xid.119"]

    assert any(action.touches_node for action in verdict.ladder) is acts


def test_the_driver_of_another_gpu_says_nothing_about_this_one() -> None:
    verdicts = judge([xid(119, 1.0), asks_for(2, 2.0, gpu="0000:05:00")], DEFAULT, R570)

    assert {v.device: v.action for v in verdicts if v.fault == "xid.119"} == {
        GPU: RemediationAction.RESET_GPU
    }


def test_a_recovery_action_that_was_polled_counts_and_so_does_the_version_that_the_log_told() -> None:
    told = seen("driver.version", kind=ReadingKind.FACT, version="580.1")
    state = JudgedNode(driver_version="550.1", recovery_actions={GPU: 2})

    assert one(told, xid(119), state=state).ladder == (RemediationAction.REBOOT,)


def test_a_failing_detector_never_acts_whatever_a_rule_says() -> None:
    hanging = rule("probe.hang", RemediationAction.POWER_CYCLE, RemediationAction.REPLACE)
    lost = seen("probe.hang", kind=ReadingKind.DETECTOR, source=ReadingSource.DCGM)

    assert one(lost, rules=(hanging,)).outcome is VerdictOutcome.ALERT
    with pytest.raises(ValueError, match="failing detector never acts"):
        rule("detector.dcgm", RemediationAction.REBOOT)


def test_what_a_source_says_while_it_fails_is_not_acted_on() -> None:
    acting = (rule("gpu.count_mismatch", RemediationAction.REBOOT), rule("xid.79", RemediationAction.REBOOT))
    fails = seen("detector.nvml", kind=ReadingKind.DETECTOR, source=ReadingSource.NVML)
    missing = seen("gpu.count_mismatch", 1.0, source=ReadingSource.NVML)
    recovered = seen("detector.nvml", 2.0, kind=ReadingKind.CLEARED, source=ReadingSource.NVML)

    outcomes = {one.fault: one.outcome for one in judge([fails, missing, xid(79, 1.0)], acting)}
    assert outcomes["gpu.count_mismatch"] is VerdictOutcome.ALERT
    assert outcomes["xid.79"] is VerdictOutcome.ACT
    after = {one.fault: one.outcome for one in judge([fails, missing, recovered], acting)}
    assert after["gpu.count_mismatch"] is VerdictOutcome.ACT


def test_what_is_over_asks_for_nothing_and_what_comes_back_counts_anew() -> None:
    rebooting = (rule("kernel.deadlock", RemediationAction.REBOOT),)
    began, over = seen("kernel.deadlock", 1.0), seen("kernel.deadlock", 2.0, kind=ReadingKind.CLEARED)

    assert one(began, over, rules=rebooting).outcome is VerdictOutcome.NONE
    assert one(began, over, seen("kernel.deadlock", 3.0), rules=rebooting).outcome is VerdictOutcome.ACT
    assert judge([over], rebooting) == ()


def test_values_and_driver_versions_bound_a_rule() -> None:
    assert one(seen("row_remap.uncorrectable", gpu=GPU, value=512)).outcome is VerdictOutcome.WAIT
    assert one(seen("row_remap.uncorrectable", gpu=GPU, value=513)).outcome is VerdictOutcome.PROPOSE
    bounded = rule("xid.31", RemediationAction.REBOOT, conditions=Conditions(driver_below="560"))
    assert one(xid(31), rules=(bounded,), state=R550).outcome is VerdictOutcome.ACT
    assert one(xid(31), rules=(bounded,), state=R570).outcome is VerdictOutcome.WAIT
    assert one(xid(31), rules=(bounded,)).outcome is VerdictOutcome.WAIT


def test_a_rule_acts_no_further_than_its_mode() -> None:
    reboots = rule("xid.79", RemediationAction.REBOOT)

    assert one(xid(79), rules=(reboots,)).outcome is VerdictOutcome.ACT
    for mode, outcome in ((Mode.PROPOSE, "propose"), (Mode.RECORD, "record"), (Mode.OFF, "none")):
        assert one(xid(79), rules=(replace(reboots, mode=mode),)).outcome == outcome
    disabled = one(xid(79), rules=(replace(reboots, enabled=False),))
    assert (disabled.outcome, disabled.reasons) == (VerdictOutcome.NONE, ("test/xid.79 is disabled",))


def test_one_gpu_is_one_whether_its_bus_or_its_uuid_is_said() -> None:
    by_uuid = GpuReading(source=ReadingSource.DCGM, fault="xid.48", gpu_uuid="GPU-1")

    assert one(xid(48), by_uuid, state=JudgedNode(uuids={GPU: "GPU-1"})).count == 2


@given(st.permutations([xid(79, 1.0), xid(13, 2.0, gpc="1", tpc="1"), xid(119, 3.0, gpu="0000:05:00")]))
def test_faults_of_several_gpus_are_judged_alike_in_whatever_order_they_come(
    readings: list[GpuReading],
) -> None:
    assert {(one.fault, one.device, one.outcome, one.ladder) for one in judge(readings, DEFAULT)} == {
        (
            "xid.79",
            GPU,
            VerdictOutcome.PROPOSE,
            (RemediationAction.REBOOT, RemediationAction.POWER_CYCLE, RemediationAction.REPLACE),
        ),
        ("xid.13", GPU, VerdictOutcome.RECORD, (RemediationAction.RESTART_APP,)),
        (
            *("xid.119", "0000:05:00", VerdictOutcome.PROPOSE),
            (
                RemediationAction.RESET_GPU,
                RemediationAction.RESTART_DRIVER,
                RemediationAction.CONTACT_SUPPORT,
            ),
        ),
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"conditions": Conditions(count=2)}, "needs a window"),
        ({"conditions": Conditions(count=0)}, "count must be from 1"),
        ({"conditions": Conditions(driver_below="r570")}, "is no driver version"),
        ({"drain": DrainLevel.GPU}, "set the drain to node"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_what_to_change(
    more: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        rule("xid.79", RemediationAction.REBOOT, **more)
