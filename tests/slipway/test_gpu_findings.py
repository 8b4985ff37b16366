"""`slipway gpu finding`: what a machine reported, listed, read and closed at a terminal."""

from datetime import UTC, datetime
from pathlib import Path

from accounts.states import Role
from clusters.models import Cluster, Node
from gpu_health.models import Finding, RuleChange
from gpu_health.services.readings import accept_readings
from tests.cast import person, team, token_of
from tests.slipway.conftest import Terminal


def test_a_finding_is_listed_told_with_its_line_and_closed_for_a_reason(terminal: Terminal) -> None:
    cluster = Cluster.objects.create(name="gpus", kind="embedded", team=team("serving"))
    now = datetime.now(UTC)
    Node.objects.create(cluster=cluster, uid="box-1", name="box-1", seen_at=now)
    line = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
    told = {
        "source": "kernel_log",
        "fault": "xid.79",
        "at": now.timestamp(),
        "clock": "epoch",
        "origin": "b/1",
    }
    entries = [told | {"gpu_bus_id": "0000:9b:00", "raw": line}]
    accept_readings(cluster_id=cluster.pk, node_uid="box-1", entries=entries)
    terminal.token = token_of(person("olga", serving=Role.OPERATOR))
    finding = Finding.objects.get()

    assert "box-1" in terminal("gpu", "finding", "list", "--severity", "fatal").out
    assert "box-1" not in terminal("gpu", "finding", "list", "--node", "box-2").out
    shown = terminal("gpu", "finding", "show", finding.pk).out
    assert line in shown
    assert "reboot > power_cycle > replace" in shown
    assert terminal("gpu", "finding", "close", finding.pk, "--reason", "reseated").status == 0
    finding.refresh_from_db()
    assert (finding.state, finding.close_reason) == ("closed", "reseated")


def test_a_log_is_replayed_by_the_rules_that_the_server_has(terminal: Terminal, tmp_path: Path) -> None:
    boss = person("olga", serving=Role.OPERATOR)
    terminal.token = token_of(boss)
    RuleChange.objects.create(
        name="default-xid.79", enabled=True, mode="record", severity="info", ladder=["alert"],
        drain="none", verification="none", conditions="", changed_by="olga", reason="a trial",
    )  # fmt: skip
    log = tmp_path / "kern.log"
    log.write_text("[ 1.5] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n")

    assert "info" in terminal("gpu", "replay", str(log), "--rules", "server").out
    assert "fatal" in terminal("gpu", "replay", str(log)).out
