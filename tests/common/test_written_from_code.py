from pathlib import Path

import pytest
from django.core.management import CommandError, call_command


def test_a_file_that_is_not_what_the_code_says_is_told_of_and_written(settings, tmp_path: Path) -> None:
    settings.BASE_DIR = tmp_path
    with pytest.raises(CommandError, match=r"docs/alerts\.yaml is out of date: run manage\.py alert_rules"):
        call_command("alert_rules", check=True)
    assert not (tmp_path / "docs").exists()

    call_command("alert_rules")
    call_command("alert_rules", check=True)

    (tmp_path / "docs" / "alerts.yaml").write_text("groups: []")
    with pytest.raises(CommandError):
        call_command("alert_rules", check=True)
