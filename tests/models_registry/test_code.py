"""Code in a version: listed when it enters, and in the way of its release until the team exempts it."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.formats import date_format

from accounts.errors import RightMissing
from common.errors import Invalid, WrongState
from common.models import AuditRecord
from model_store.reading import InMemoryContent
from models_registry.errors import CodeNotAllowed
from models_registry.exemptions import check_code, code_of
from models_registry.models import CodeExemption, Model, Version
from models_registry.services import exemptions
from tests import cast
from tests.models_registry import builders as b
from trust.formats.identification import identify

pytestmark = pytest.mark.any_database

CODE = b"import torch\n\n\nclass Tiny(torch.nn.Module): ...\n"
SOON = timedelta(days=30)


@pytest.fixture
def version(library, actor, model) -> Version:
    """A version with a module, and a tokenizer that names one of another repository."""
    tokenizer = json.dumps({"auto_map": {"AutoTokenizer": ["evil/repo--t.T", None]}}).encode()
    b.write(library.root / "model", {"modeling_tiny.py": CODE, "tokenizer_config.json": tokenizer})
    return library.ready(actor, model)


def exempt(admin, model, **how) -> CodeExemption:
    given = {"until": timezone.now() + SOON, "reason": "I have read it."} | how
    return exemptions.exempt_code(actor=admin, team=cast.team("vision"), model=model, **given)


def test_modules_and_what_configs_name_are_listed_with_the_version(version) -> None:
    assert code_of(version) == [
        {"path": "modeling_tiny.py", "reason": "Python code, which loaders run with trust_remote_code."},
        {"path": "tokenizer_config.json", "reason": "Its auto_map names evil/repo--t.T."},
    ]
    assert version.files.get(path="modeling_tiny.py").format == "python"


@pytest.mark.parametrize(
    "config",
    [
        {"auto_map": {"AutoModel": "a.B"}},
        {"text_config": {"auto_map": {"AutoModel": "a.B"}}},
        {"auto_map": "a.B"},
        {"parts": [{"auto_map": {"AutoModel": ["a.B"]}}], "filler": "x" * 2_000_000},
    ],
)
def test_what_a_config_names_is_found_at_any_depth_and_size(config) -> None:
    content = InMemoryContent(json.dumps(config).encode())
    assert identify("sub/processor_config.json", content).names_code == ("a.B",)


def test_a_version_without_code_needs_no_exemption(library, actor, model) -> None:
    check_code(library.ready(actor, model))


def test_a_version_from_before_code_was_listed_is_judged_by_its_config() -> None:
    version = Version(scan={"verdict": "passed"}, config={"auto_map": {"AutoModel": "a.B"}})
    assert [one["path"] for one in code_of(version)] == ["config.json"]


def test_code_is_in_the_way_until_the_model_is_exempted_and_again_when_that_is_over(version, admin) -> None:
    with pytest.raises(CodeNotAllowed, match=r"modeling_tiny.py, tokenizer_config.json.*team vision"):
        check_code(version)
    exemption = exempt(admin, version.model)
    check_code(version)
    with pytest.raises(CodeNotAllowed):
        check_code(version, at=exemption.until)


def test_an_exemption_holds_for_its_model_or_for_all_of_its_team_and_no_other(version, admin) -> None:
    other = Model.objects.create(team=cast.team("vision"), name="other")
    exempt(admin, other)
    foreign = CodeExemption(team=cast.team("speech"), reason="x", until=timezone.now() + SOON)
    foreign.save()
    with pytest.raises(CodeNotAllowed):
        check_code(version)
    exempt(admin, None)
    check_code(version)


def test_an_exemption_ends_when_an_admin_says_so_once(version, admin) -> None:
    exemption = exempt(admin, version.model)
    exemptions.end_exemption(actor=admin, exemption=exemption, reason="Not needed.")
    with pytest.raises(CodeNotAllowed):
        check_code(version)
    with pytest.raises(WrongState):
        exemptions.end_exemption(actor=admin, exemption=exemption, reason="Not needed.")
    told = AuditRecord.objects.filter(action__startswith="code.").values_list("action", "actor", "reason")
    assert list(told.order_by("seq")) == [
        ("code.exempt", "cleo", "I have read it."),
        ("code.exempt_end", "cleo", "Not needed."),
    ]


def test_only_an_admin_exempts_with_a_reason_for_at_most_180_days(version, admin, actor) -> None:
    with pytest.raises(RightMissing):
        exempt(actor, version.model)
    for wrong in (
        {"reason": " "},
        {"until": timezone.now() + timedelta(days=181)},
        {"until": timezone.now() - timedelta(seconds=1)},
    ):
        with pytest.raises(Invalid):
            exempt(admin, version.model, **wrong)
    foreign = Model.objects.create(team=cast.team("speech"), name="foreign")
    with pytest.raises(Invalid):
        exempt(admin, foreign)
    assert not CodeExemption.objects.exists()


def test_the_page_of_the_team_exempts_and_ends_and_the_version_says_what_holds(version) -> None:
    browser = Client()
    browser.force_login(cast.person("dora", vision="admin"))
    assert "It cannot be released" in browser.get("/models/tiny/v1/").content.decode()
    given = {"model": "tiny", "days": "30", "reason": "Bo has read it."}
    browser.post("/settings/teams/vision/code/+new/", given)
    row = CodeExemption.objects.get()
    assert (row.model, row.given_by) == (version.model, "dora")
    for page in ("/settings/teams/vision/code/", "/models/tiny/v1/"):
        assert "Bo has read it." in browser.get(page).content.decode()
    browser.post(f"/settings/teams/vision/code/{row.pk}/+end/", {"reason": "Enough."})
    assert "It cannot be released" in browser.get("/models/tiny/v1/").content.decode()
    assert browser.get("/settings/teams/speech/code/").status_code == 404


def test_ending_one_of_two_exemptions_says_that_the_other_one_holds(version, admin) -> None:
    browser = Client()
    browser.force_login(cast.person("dora", vision="admin"))

    def ended(row: CodeExemption) -> str:
        address = f"/settings/teams/vision/code/{row.pk}/+end/"
        return browser.post(address, {"reason": "Enough."}, headers={"HX-Request": "true"})["HX-Trigger"]

    one, every = exempt(admin, version.model), exempt(admin, None)
    until = date_format(every.until, "j F Y")
    assert f"Another exemption of it holds until {until}." in ended(one)
    assert "is not exempted any more" in ended(every)


def test_rest_exempts_lists_and_ends(version) -> None:
    api = cast.Api(cast.token_of(cast.person("dora", vision="admin")))
    until = (timezone.now() + SOON).isoformat()
    made = api.post("code-exemptions/", {"team": "vision", "model": "tiny", "reason": "read", "until": until})
    assert made.status_code == 201, made.content
    assert api.get("code-exemptions/?in_force=true&team=vision").json()["results"] == [made.json()]
    ended = api.post(f"code-exemptions/{made.json()['id']}/end/", {"reason": "enough"}).json()
    assert (ended["in_force"], ended["ended_by"]) == (False, "dora")
    assert api.get("code-exemptions/?in_force=true").json()["results"] == []
    assert api.get("models/tiny/versions/v1/").json()["scan"]["code"][0]["path"] == "modeling_tiny.py"
