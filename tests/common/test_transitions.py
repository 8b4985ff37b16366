import pytest

from common.transitions import IllegalMove, StateMachine

LAMP: StateMachine[str] = StateMachine({"off": {"on"}, "on": {"off", "broken"}, "broken": set()})


def test_only_listed_moves_are_allowed() -> None:
    LAMP.check("off", "on")
    with pytest.raises(IllegalMove, match="from off to broken"):
        LAMP.check("off", "broken")


def test_a_table_that_leads_to_an_unlisted_state_is_refused() -> None:
    with pytest.raises(ValueError, match="melted"):
        StateMachine({"on": {"melted"}})
