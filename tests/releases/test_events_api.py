"""Following a release over server-sent events."""

import pytest

from accounts.actors import of_user
from accounts.models import Membership
from accounts.states import Role
from releases.api.releases import _may_read
from tests.accounts.rights_matrix import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root")]


@pytest.fixture
def import_root(tmp_path, settings):
    settings.SLIPWAY_IMPORT_ROOTS = (tmp_path,)


def test_a_stream_does_not_outlive_the_right_to_read_it():
    scene = Scene.of_role(Role.VIEWER)
    actor = of_user(scene.user)
    assert _may_read(actor, scene.release.pk)
    Membership.objects.filter(user=scene.user).delete()
    assert not _may_read(actor, scene.release.pk)
