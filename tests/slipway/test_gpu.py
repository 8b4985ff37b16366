"""`slipway gpu replay`: a log is judged without a server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.cli import main

JSON = ("--output", "json")
LOG = b"""[   10.0] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build
[  100.0] NVRM: Xid (PCI:0000:9b:00): 119, pid=7, name=python, Timeout after 6s of waiting for RPC response
[  100.1] NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot)
[  101.0] NVRM: Xid (PCI:0000:05:00): 31, pid=8, name=python, MMU Fault: ENGINE GRAPHICS
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.write_bytes(LOG)
    return path


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_a_log_is_judged_offline_and_says_why(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run("gpu", "replay", str(log), "--rules", "nvidia", capsys=capsys)

    assert status == 0
    assert "the driver's own verdict outranks the table: node reboot" in out
    assert "nvidia: RESET_GPU; INVESTIGATE_SW" in out
    assert "3 fault readings; nothing was done." in out


def test_programs_get_one_document(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run("--output", "json", "gpu", "replay", str(log), capsys=capsys)
    document = json.loads(out)

    assert status == 0
    assert [(row["fault"], row["ladder"][0]) for row in document["verdicts"]] == [
        ("xid.119", "reboot"),
        ("gpu.recovery_action", "reboot"),
        ("xid.31", "restart_app"),
    ]
    assert document["verdicts"][0]["first_at"] == "100.000 s after the start"


def test_a_log_may_come_through_a_pipe() -> None:
    command = [
        sys.executable,
        "-m",
        "slipway.cli",
        "--output",
        "json",
        "gpu",
        "replay",
        "-",
        "--driver",
        "550.1",
    ]
    done = subprocess.run(command, input=LOG.split(b"\n", 1)[1], capture_output=True, check=True, timeout=60)

    ladders = {row["fault"]: row["ladder"] for row in json.loads(done.stdout)["verdicts"]}
    assert ladders["xid.119"][0] == "reset_gpu"


def test_rules_may_come_from_a_file_of_the_same_form(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "ours.csv"
    rules.write_text(
        "fault,conditions,severity,ladder,drain,verification,mode,inferred,source,says\n"
        "xid.31,,fatal,reboot,node,none,act,,us,seen in May\n"
    )
    _, out, _ = run("--output", "json", "gpu", "replay", str(log), "--rules", str(rules), capsys=capsys)

    assert [(row["fault"], row["outcome"]) for row in json.loads(out)["verdicts"]] == [
        ("xid.31", "act"),
        ("xid.119", "alert"),
        ("gpu.recovery_action", "alert"),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.log",), "nowhere.log: No such file"),
        (("-", "--rules", "amd"), "choose one of default"),
        (("-", "--rules", "nowhere.csv"), "nowhere.csv: No such file"),
        (("-", "--driver", "new"), "--driver new is no driver version"),
    ],
)
def test_what_cannot_be_replayed_says_so(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run("gpu", "replay", *arguments, capsys=capsys)

    assert status == 2
    assert words in err


def test_rules_and_their_disagreements_are_listed_offline(capsys: pytest.CaptureFixture[str]) -> None:
    _, said, _ = run(*JSON, "gpu", "rules", "--rules", "eks", "--fault", "xid.79", capsys=capsys)
    assert [(row["ladder"], row["source"]) for row in json.loads(said)] == [(["reboot", "replace"], "eks")]

    _, said, _ = run(*JSON, "gpu", "disagreements", capsys=capsys)
    disputed = {row["fault"]: row["statements"] for row in json.loads(said)}
    assert disputed["xid.63"]["nvidia"] == "ignore"
    assert "xid.48" not in disputed

    status, _, err = run("gpu", "rules", "--fault", "xid.9999", capsys=capsys)
    assert (status, "have none for xid.9999" in err) == (2, True)
