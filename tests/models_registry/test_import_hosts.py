"""Imports by server path where several hosts have import roots: the one that has the directory takes them."""

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from common.models import Pulse
from models_registry.errors import NotInAnImportRoot, SourceNotAllowed, SourceNotThere
from models_registry.models import Version
from models_registry.reconcilers.versions import VersionReconciler
from models_registry.services import imports
from tests.crash.harness import run_until_rest, worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def brno(library, settings, tmp_path: Path) -> Path:
    """The import root of another living host, which shares the store with this one."""
    root = tmp_path / "brno"
    root.mkdir()
    settings.SLIPWAY_HOST = "here"
    for host, there in (("here", library.root), ("brno", root)):
        published = {"import_roots": [str(there)]}
        Pulse.objects.create(
            name=f"sweeper@{host}:1", host=host, pid=1, at=timezone.now(), published=published
        )
    return root


def imported(actor: Any, model: Any, source: object) -> Version:
    return imports.import_version(actor=actor, model=model, source=str(source))


def settle_at(library, settings, host: str, root: Path) -> None:
    """Let the workers of that host take what is due, until nothing is."""
    settings.SLIPWAY_HOST, settings.SLIPWAY_IMPORT_ROOTS = host, (root,)
    library.runner.host = host
    kernel = worker([VersionReconciler(library.runner)], library.clock)
    kernel.host = lambda: host
    run_until_rest(kernel, library.clock)


def test_a_directory_of_another_host_is_imported_by_that_host(library, settings, actor, model, brno) -> None:
    directory = library.directory("model").rename(brno / "model")
    version = imported(actor, model, directory)
    assert version.source["uri"] == f"file://brno{directory}"
    settle_at(library, settings, "here", library.root)
    version.refresh_from_db()
    assert (version.state, version.lane_host) == ("importing", "brno")
    settle_at(library, settings, "brno", brno)
    version.refresh_from_db()
    assert version.state == "ready", version.reason


def test_what_is_not_there_either_fails_and_names_the_host_that_looked(
    library, settings, actor, model, brno
) -> None:
    (brno / "out").symlink_to("/etc")
    missing, linked = imported(actor, model, brno / "missing"), imported(actor, model, brno / "out")
    settle_at(library, settings, "here", library.root)
    settle_at(library, settings, "brno", brno)
    missing.refresh_from_db()
    linked.refresh_from_db()
    assert missing.state == linked.state == "failed"
    assert "is not there, on the host brno" in missing.reason
    assert "is not inside an import root of the host brno" in linked.reason


def test_a_refusal_names_the_hosts_that_could_have_it(library, settings, actor, model, brno) -> None:
    Pulse.objects.filter(host="brno").update(published={"import_roots": [str(library.root), str(brno)]})
    missing = library.root / "missing"
    with pytest.raises(SourceNotThere, match=f"import root: brno. file://brno{missing}"):
        imported(actor, model, missing)
    with pytest.raises(NotInAnImportRoot, match=f"here: {library.root}; brno: .*{brno}"):
        imported(actor, model, "/nowhere")
    with pytest.raises(NotInAnImportRoot, match="brno"):
        imported(actor, model, "file://brno/nowhere")
    assert imported(actor, model, f"file://brno{missing}").source["host"] == "brno"


def test_a_host_that_fell_silent_takes_nothing_and_is_said_to(library, settings, actor, model, brno) -> None:
    version = imported(actor, model, brno / "model")
    Pulse.objects.filter(host="brno").delete()
    settle_at(library, settings, "here", library.root)
    version.refresh_from_db()
    assert version.state == "failed"
    assert "lies on the host brno, of which nothing is heard" in version.reason
    with pytest.raises(SourceNotAllowed, match="No living host has the name brno"):
        imports.retry_import(actor=actor, version=version)
