"""A machine that only its provider can restart is restarted once, whatever becomes of the answers."""

import sys
from pathlib import Path

import pytest

from gpu_health.actions import provided
from gpu_health.providers.base import Deed, Machine, ProviderAway, State, Told
from gpu_health.providers.command import CommandProvider
from tests.gpu_health.healing import LIMITS, Ward

MACHINE = Machine(name="n", uid="u", provider_id="i-1", address="", cluster="c", provider="aws")


class Provider:
    """Restarts the machine of a ward; an answer may be lost, or it may not know."""

    def __init__(self, ward: Ward, *, loses: int = 0, knows: bool = True) -> None:
        self.ward, self.loses, self.knows = ward, loses, knows
        self.deeds: list[str] = []

    def order(self, deed: Deed, machine: Machine, op_key: str, reason: str) -> Told:
        self.deeds.append(f"{deed} {op_key}")
        if self.knows:
            self.ward.operations.reboots += 1
        if self.loses:
            self.loses -= 1
            raise ProviderAway("the answer was lost")
        return Told(State.RUNNING)

    def status(self, deed: Deed, machine: Machine, op_key: str) -> Told:
        if not self.knows:
            return Told(State.UNKNOWN)
        return Told(State.RUNNING if self.deeds else State.NEVER)


def given(monkeypatch: pytest.MonkeyPatch, **provider: object) -> tuple[Ward, Provider]:
    ward = Ward(limits=LIMITS | {"approved_actions": []})
    one = Provider(ward, **provider)  # type: ignore[arg-type]
    monkeypatch.setattr(provided, "machine_provider", lambda: one)
    ward.finding(ladder=["power_cycle", "replace"])
    return ward, one


@pytest.mark.django_db
def test_a_lost_answer_is_asked_after_and_the_machine_cycled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ward, provider = given(monkeypatch, loses=1)

    ward.run("closed")

    assert len(provider.deeds) == 1


@pytest.mark.django_db
def test_what_nobody_can_see_is_asked_of_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    ward, provider = given(monkeypatch, loses=1, knows=False)

    ward.run(lambda: ward.incident.stuck_at is not None)

    assert len(provider.deeds) == 1
    assert "cannot be seen whether it took effect" in ward.incident.last_error


@pytest.mark.django_db
def test_without_a_provider_the_ladder_ends_with_a_person() -> None:
    ward = Ward(limits=LIMITS | {"approved_actions": []})
    ward.finding(ladder=["power_cycle", "replace"])

    incident = ward.run("needs_person")

    told = "".join(incident.timeline.values_list("words", flat=True))
    assert "No provider of machines is configured" in told


def test_a_program_is_told_the_machine_and_answers_in_json(tmp_path: Path) -> None:
    program = tmp_path / "cloud"
    program.write_text(
        "import json, sys\n"
        "machine = json.load(sys.stdin)\n"
        "words = ' '.join([*sys.argv[1:], machine['provider_id']])\n"
        "print(json.dumps({'state': 'running', 'words': words}))\n"
    )
    provider = CommandProvider((sys.executable, str(program)))

    assert provider.order(Deed.POWER_CYCLE, MACHINE, "k1", "xid").words == "power_cycle k1 i-1"
    assert provider.status(Deed.POWER_CYCLE, MACHINE, "k1").words == "status k1 power_cycle i-1"
    with pytest.raises(ProviderAway, match="ended with 2"):
        CommandProvider((sys.executable, str(tmp_path / "missing"))).status(Deed.REBOOT, MACHINE, "k1")
