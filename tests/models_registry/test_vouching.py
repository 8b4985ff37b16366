"""Versions are signed and verified as they enter; teams say whose signatures count, and what they demand."""

import json
import re
from pathlib import Path

import model_signing
import pytest

from accounts.errors import RightMissing
from common import audit
from common.errors import Invalid, NameTaken, WrongState
from common.models import AuditRecord
from models_registry import files, signature_verification
from models_registry.errors import SignatureNotTrusted
from models_registry.models import Version, VersionSignature
from models_registry.services import archiving, imports
from models_registry.signature_verification import check_signature, standing_of
from tests import cast
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, die, dies
from tests.models_registry import builders as b
from tests.trust.test_signing import manifest_in, new_key, pem_of, written
from trust import services as trust_services
from trust.models import TrustedKey
from trust.signing import bundles
from trust.signing.keys import PrivateKey

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def key() -> PrivateKey:
    return new_key()


@pytest.fixture
def signing(settings, tmp_path: Path, key: PrivateKey) -> PrivateKey:
    """This installation signs with it."""
    settings.SLIPWAY_SIGNING_KEY = str(written(tmp_path, "key.pem", pem_of(key)))
    return key


def trust(admin, key: PrivateKey, name: str = "ci") -> TrustedKey:
    team = cast.team("vision")
    return trust_services.trust_key(actor=admin, team=team, name=name, pem=key.public_key.pem, reason="known")


def demand(admin, what: str) -> None:
    trust_services.demand_signatures(actor=admin, team=cast.team("vision"), demand=what, reason="policy")


def shown(version: Version) -> dict:
    found = signature_verification.signatures_of([version]).get(version.pk, [])
    return {row.origin: (row.verdict, row.key.name if row.key else None) for row in found}


def carrying(library, key: PrivateKey, name: str = "model") -> Path:
    """A directory that its author has signed."""
    directory = library.directory(name)
    written(directory, "model.sig", bundles.signed("tiny", manifest_in(directory), key))
    return directory


def test_a_version_is_signed_as_it_enters_and_the_library_verifies_it(
    library, actor, model, admin, signing, tmp_path
) -> None:
    trust(admin, signing)
    version = library.ready(actor, model)
    assert shown(version) == {"slipway": ("valid", "ci")}
    api = cast.api(cast.person("vera", vision="viewer"))
    answer = api.get("models/tiny/versions/v1/signature/")
    assert answer["Content-Type"] == bundles.MEDIA_TYPE
    public = written(tmp_path, "key.pub", api.get("signing/").json()["public_key"])
    config = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=public)
    config.verify(files.materialise(version), written(tmp_path, "v1.sig", answer.content))
    told = api.get("models/tiny/versions/").json()["results"][0]["signature"]
    assert (told["standing"], told["made"][0]["key"]) == ("trusted", "ci")


def test_without_a_key_a_version_is_unsigned_and_has_nothing_to_download(library, actor, model, api) -> None:
    version = library.ready(actor, model)
    assert standing_of(version).name == "unsigned"
    assert api.get("models/tiny/versions/v1/").json()["signature"] is None
    answer = api.get("models/tiny/versions/v1/signature/")
    assert (answer.status_code, "has no signature" in answer.json()["detail"]) == (404, True)
    assert api.get("signing/").json()["signs"] is False


def test_a_signature_that_comes_with_the_files_counts_when_its_key_is_trusted_even_later(
    library, actor, model, admin, key
) -> None:
    carrying(library, key)
    version = imports.import_version(actor=actor, model=model, source=str(library.root / "model"))
    library.settle()
    assert shown(version) == {"files": ("unknown", None)}
    trusted = trust(admin, key)
    library.settle()
    assert shown(version) == {"files": ("valid", "ci")}
    trust_services.distrust_key(actor=admin, key=trusted, reason="It leaked.")
    version.refresh_from_db()
    assert standing_of(version).name == "unknown"
    assert (
        signature_verification.shown_standing(
            signature_verification.signatures_of([version])[version.pk]
        ).name
        == "unknown"
    )


def test_a_signature_for_other_files_is_found_as_they_enter(library, actor, model, admin, key) -> None:
    trust(admin, key)
    carrying(library, key)
    b.write(library.root / "model", {"config.json": b'{"changed": true}'})
    version = imports.import_version(actor=actor, model=model, source=str(library.root / "model"))
    library.settle()
    row = VersionSignature.objects.get(version=version)
    assert (row.verdict, "'config.json' is not what was signed" in row.reason) == ("invalid", True)
    version.refresh_from_db()
    demand(admin, "require")
    with pytest.raises(SignatureNotTrusted, match=r"broken\. 'config.json'"):
        check_signature(version)


def test_a_broken_signature_outweighs_ours(library, actor, model, admin, signing) -> None:
    trust(admin, signing)
    written(library.directory(), "model.sig", "no bundle")
    version = imports.import_version(actor=actor, model=model, source=str(library.root / "model"))
    library.settle()
    version.refresh_from_db()
    assert shown(version) == {"files": ("invalid", None), "slipway": ("valid", "ci")}
    assert standing_of(version).name == "invalid"
    assert not VersionSignature.objects.get(version=version, origin="files").bundle


def test_what_the_team_demands_is_asked_with_the_keys_that_it_trusts_now(
    library, actor, model, admin, signing
) -> None:
    version = library.ready(actor, model)
    assert check_signature(version) == ""
    demand(admin, "warn")
    assert check_signature(version) == ("Warning: It is signed, but by no key that the team trusts.")
    demand(admin, "require")
    with pytest.raises(SignatureNotTrusted, match="ask an admin of the team to trust the key"):
        check_signature(version)
    key = trust(admin, signing)
    assert check_signature(version) == "Signed by the key ci."
    trust_services.distrust_key(actor=admin, key=key, reason="It leaked.")
    with pytest.raises(SignatureNotTrusted):
        check_signature(version)
    demand(admin, "off")
    assert check_signature(version) == ""


def test_a_key_that_cannot_sign_is_told_and_tried_again(
    library, actor, model, admin, settings, tmp_path, key
) -> None:
    settings.SLIPWAY_SIGNING_KEY = str(tmp_path / "key.pem")
    version = imports.import_version(actor=actor, model=model, source=str(library.directory()))
    for _ in range(3):
        library.worker().sweep()
        library.clock.pass_(LEASE_AND_A_BIT)
    version.refresh_from_db()
    assert (version.state, version.is_held, version.signatures_checked_at) == ("ready", False, None)
    assert "No such file" in standing_of(version).reason
    written(tmp_path, "key.pem", pem_of(key))
    trust(admin, key)
    library.clock.pass_(LEASE_AND_A_BIT)
    library.settle()
    assert shown(version) == {"slipway": ("valid", "ci")}


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(False, id="as it enters"),
        pytest.param(True, id="when a key is trusted later", marks=pytest.mark.slow),
    ],
)
def test_signing_survives_a_crash_at_any_point(library, actor, model, admin, signing, again: bool) -> None:
    directory = carrying(library, new_key())
    point = 0
    while True:
        point += 1
        version = imports.import_version(actor=actor, model=model, source=str(directory))
        late = new_key()
        if again:
            written(directory, "model.sig", bundles.signed("tiny", manifest_in(directory), late))
            library.settle()
            trust(admin, late, f"key{point}")
        if not dies(library.worker(Checkpoints(at=point, then=die)), library.clock):
            break
        library.settle()
        assert [*shown(version)] == ["files", "slipway"]
        version.refresh_from_db()
        assert (version.state, version.signatures_checked_at is None, version.stuck_at) == (
            "ready",
            False,
            None,
        )
        if again:
            assert shown(version)["files"] == ("valid", f"key{point}")
        assert audit.verify().intact
    assert point > (3 if again else 15)


def test_a_version_from_before_there_was_a_key_is_signed_when_somebody_asks(
    library, actor, model, settings, tmp_path, key, api
) -> None:
    version = library.ready(actor, model)
    settings.SLIPWAY_SIGNING_KEY = str(written(tmp_path, "key.pem", pem_of(key)))
    assert api.post("models/tiny/versions/v1/verify/", {"reason": "We sign now."}).status_code == 202
    library.settle()
    assert shown(version) == {"slipway": ("unknown", None)}
    archiving.archive_version(actor=actor, version=Version.objects.get(pk=version.pk), reason="old")
    assert api.post("models/tiny/versions/v1/verify/", {}).status_code == 409


@pytest.mark.every_database
def test_only_an_admin_trusts_distrusts_and_demands_with_a_reason(actor, model, admin, key) -> None:
    team = cast.team("vision")
    for refused in (
        lambda: trust(actor, key),
        lambda: demand(actor, "off"),
    ):
        with pytest.raises(RightMissing):
            refused()
    good = {"actor": admin, "team": team, "name": "ci", "pem": key.public_key.pem, "reason": "known"}
    for wrong in ({"reason": " "}, {"name": ""}, {"pem": pem_of(key).decode()}, {"pem": "x"}):
        with pytest.raises(Invalid):
            trust_services.trust_key(**good | wrong)
    row = trust_services.trust_key(**good)
    with pytest.raises(NameTaken, match="the same key already, as ci"):
        trust_services.trust_key(**good | {"name": "other"})
    with pytest.raises(NameTaken, match="another key with the name ci"):
        trust_services.trust_key(**good | {"pem": new_key().public_key.pem})
    trust_services.distrust_key(actor=admin, key=row, reason="lost")
    with pytest.raises(WrongState):
        trust_services.distrust_key(actor=admin, key=row, reason="lost")
    with pytest.raises(Invalid):
        trust_services.demand_signatures(actor=admin, team=team, demand="sometimes", reason="x")
    demand(admin, "require")
    told = AuditRecord.objects.order_by("seq").values_list("action", "reason")
    assert [one for one in told if one[0].startswith(("key.", "signatures."))] == [
        ("key.trust", "known"),
        ("key.distrust", "lost"),
        ("signatures.demand", "policy"),
    ]


def test_rest_trusts_keys_and_sets_what_is_demanded(model, key) -> None:
    api = cast.api(cast.person("dora", vision="admin"))
    assert api.get("signature-policies/vision/").status_code == 404
    assert api.put("signature-policies/vision/", {"demand": "require", "reason": "x"}).status_code == 201
    assert api.get("signature-policies/vision/").json()["demand"] == "require"
    body = {"team": "vision", "name": "ci", "pem": key.public_key.pem, "reason": "known"}
    made = api.post("trusted-keys/", body).json()
    assert made["fingerprint"] == key.public_key.fingerprint
    assert api.get("trusted-keys/?team=vision&in_force=true").json()["results"] == [made]
    removed = api.post(f"trusted-keys/{made['id']}/remove/", {"reason": "lost"}).json()
    assert (removed["in_force"], removed["removed_by"]) == (False, "dora")
    refused = api.post("trusted-keys/", body | {"pem": "hello"}).json()
    assert "no public key" in json.dumps(refused["errors"]["pem"])


def test_the_page_of_the_team_trusts_removes_and_demands_and_the_version_says_what_holds(
    library, actor, model, signing, client
) -> None:
    library.ready(actor, model)
    client.force_login(cast.person("dora", vision="admin"))
    settings = "/settings/teams/vision/signatures/"
    page = client.get(settings).content.decode()
    assert "The team does not trust it" in page
    assert signing.public_key.pem.strip() in page
    client.post(settings + "+demand/", {"demand": "require", "reason": "All of us sign."})
    assert "It cannot be released" in client.get("/models/tiny/v1/").content.decode()
    given = {"name": "slipway", "pem": signing.public_key.pem, "reason": "We import ourselves."}
    client.post(settings + "+trust/", given)
    library.settle()
    page = client.get(settings).content.decode()
    for words in ("it is not served", "All of us sign.", "We import ourselves.", "and the team trusts it"):
        assert words in page
    page = client.get("/models/tiny/v1/").content.decode()
    assert "Signed by the key slipway." in page
    (link,) = re.findall(r'href="([^"]+)" download', page)
    assert (
        client.get(link, headers={"Accept": "text/html,*/*;q=0.8"}).json()["mediaType"] == bundles.MEDIA_TYPE
    )
    assert "Trusted" in client.get("/models/tiny/").content.decode()
    row = TrustedKey.objects.get()
    client.post(f"{settings}{row.pk}/+remove/", {"reason": "Enough."})
    assert "It cannot be released" in client.get("/models/tiny/v1/").content.decode()
    assert client.get("/settings/teams/speech/signatures/").status_code == 404
