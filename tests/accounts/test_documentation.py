"""docs/API.md says what the code does."""

from django.conf import settings

from accounts.states import RIGHTS, Right, Role


def test_the_table_of_roles_is_the_one_in_the_code():
    lines = (settings.BASE_DIR / "docs" / "API.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    roles = [Role(name) for name in rows[0][1:]]
    assert roles == list(Role)
    told = {Right(row[0].strip("`")): row[1:] for row in rows[2:]}
    assert told == {right: ["x" if right in RIGHTS[role] else "" for role in roles] for right in Right}
