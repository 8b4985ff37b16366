"""Who vouches for a version: the signatures over its files, whose they are, and what its team demands."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from common.prepared import Ids, prepared
from model_store import blob_store
from model_store.errors import BlobMissing
from model_store.file_manifest import FileManifest
from models_registry import files
from models_registry.errors import SignatureNotTrusted, Unsigned
from models_registry.models import Version, VersionSignature
from models_registry.states import SignatureOrigin
from trust.errors import CannotSign
from trust.models import TrustedKey
from trust.signature_policy import SignatureStatus, demand_of, keys_of, public_keys_of, signer, standing
from trust.signing import bundles
from trust.signing.bundles import BundleVerdict
from trust.signing.keys import PublicKey
from trust.signing.statements import SIGNATURE_PATH
from trust.states import SignatureDemand, SignatureVerdict


@dataclass(frozen=True, slots=True)
class VerifiedSignature:
    """A signature of a version and what is to be said of it now."""

    origin: SignatureOrigin
    bundle: str
    verdict: BundleVerdict


def look(version: Version, manifest: FileManifest) -> list[VerifiedSignature]:
    """Verify the signatures of a version whose files are in the store, and make ours where it is missing."""
    trusted = public_keys_of(version.model.team_id)
    found = []
    carried = _kept(version, SignatureOrigin.FILES) or _carried(manifest)
    if carried is not None:
        verdict = bundles.verified(carried, manifest, trusted)
        # What is none is not kept a second time: it can be anything, and large.
        found.append(
            VerifiedSignature(SignatureOrigin.FILES, carried if bundles.is_bundle(carried) else "", verdict)
        )
    if (ours := _ours(version, manifest, trusted)) is not None:
        found.append(ours)
    return found


def _kept(version: Version, origin: SignatureOrigin) -> str:
    """Results or made before: the files of a version never change."""
    rows = VersionSignature.objects.filter(version=version.pk, origin=origin)
    return rows.values_list("bundle", flat=True).first() or ""


def _carried(manifest: FileManifest) -> str | None:
    """The bundle among the files; what is larger than a bundle can be is cut, and so no bundle."""
    file = next((file for file in manifest.files if file.path == SIGNATURE_PATH), None)
    if file is None:
        return None
    try:
        with blob_store.store().opened(file.sha256) as content:
            return content.read_at(0, bundles.MAX_BYTES + 1).decode("utf-8", "replace")
    except BlobMissing:
        return ""


def _ours(
    version: Version, manifest: FileManifest, trusted: Mapping[str, PublicKey]
) -> VerifiedSignature | None:
    bundle = _kept(version, SignatureOrigin.SLIPWAY)
    if not bundle:
        try:
            one = signer()
            if one is None:
                return None
            bundle = bundles.signed(str(version), manifest, one)
        except CannotSign as error:
            return VerifiedSignature(
                SignatureOrigin.SLIPWAY, "", BundleVerdict(SignatureVerdict.MISSING, str(error))
            )
    return VerifiedSignature(SignatureOrigin.SLIPWAY, bundle, bundles.verified(bundle, manifest, trusted))


def done_at(version: Version, seen: Iterable[VerifiedSignature], now: datetime) -> datetime | None:
    """When all signatures of a version were looked at; None: one is to be made, or a key is trusted since."""
    verdicts = [one.verdict for one in seen]
    if any(one.verdict == SignatureVerdict.MISSING for one in verdicts):
        return None
    unknown = [one.fingerprint for one in verdicts if one.verdict == SignatureVerdict.UNKNOWN]
    since = keys_of(version.model.team_id).filter(fingerprint__in=unknown)
    return None if since.exists() else now


def record(version: Version, seen: Iterable[VerifiedSignature], now: datetime) -> None:
    """Write what was seen of the signatures, in the transaction that says it was looked at."""
    for one in seen:
        key = _key(version, one.verdict)
        verdict = one.verdict.verdict
        if verdict == SignatureVerdict.VALID and key is None:
            verdict = SignatureVerdict.UNKNOWN
        VersionSignature.objects.update_or_create(
            version=version,
            origin=one.origin,
            defaults={
                "bundle": one.bundle,
                "fingerprint": one.verdict.fingerprint,
                "verdict": verdict,
                "reason": one.verdict.reason,
                "key": key if verdict == SignatureVerdict.VALID else None,
                "verified_at": now,
            },
        )


def _key(version: Version, verdict: BundleVerdict) -> TrustedKey | None:
    """Return the trusted key of the verdict; None also when the key was removed since."""
    return keys_of(version.model.team_id).filter(fingerprint=verdict.fingerprint).first()


def standing_of(version: Version) -> SignatureStatus:
    """Verified anew, over the files as they are listed, by the keys that the team trusts now."""
    return standing(_verified_anew(version))


def signers_of(version: Version) -> list[str]:
    """Return the names of the keys trusted now whose signatures are valid, verified anew."""
    found = {key for verdict, _reason, key in _verified_anew(version) if verdict == SignatureVerdict.VALID}
    return sorted(found - {""})


def _verified_anew(version: Version) -> list[tuple[str, str, str]]:
    """Return verdict, reason and name of the trusted key of each signature."""
    manifest, trusted = files.manifest_of(version), public_keys_of(version.model.team_id)
    rows = VersionSignature.objects.filter(version=version.pk).order_by("origin")
    told = []
    for bundle, verdict, reason in rows.values_list("bundle", "verdict", "reason"):
        if verdict == SignatureVerdict.MISSING:
            told.append(BundleVerdict(SignatureVerdict.MISSING, reason))
        else:
            told.append(bundles.verified(bundle, manifest, trusted))
    names = dict(keys_of(version.model.team_id).values_list("fingerprint", "name"))
    return [(one.verdict, one.reason, names.get(one.fingerprint, "")) for one in told]


def check_signature(version: Version) -> str:
    """Return a note on the version's signatures for serving it; empty where nothing is demanded.

    Raises SignatureNotTrusted when its team requires one by a key that it trusts.
    """
    demand = demand_of(version.model.team_id)
    if demand == SignatureDemand.OFF:
        return ""
    found = standing_of(version)
    if found.name == "trusted":
        return found.reason
    if demand == SignatureDemand.WARN:
        return _("Warning: %(reason)s") % {"reason": found.reason}
    team = version.model.team.name
    raise SignatureNotTrusted(
        _(
            "Team %(team)s serves only versions that a key it trusts has signed, and %(version)s "
            "is none. %(reason)s Have it signed and import it again, or ask an admin of the team "
            "to trust the key."
        )
        % {"team": team, "version": version, "reason": found.reason}
    )


def bundle_of(version: Version, origin: str = "") -> str:
    """The text of its signature, for others to verify: Slipway's before the one of its files. Raises
    Unsigned.
    """
    rows = VersionSignature.objects.filter(version=version.pk).exclude(bundle="")
    rows = rows.filter(origin=origin) if origin else rows.order_by("-origin")
    bundle = rows.values_list("bundle", flat=True).first()
    if bundle is None:
        raise Unsigned(
            _("%(version)s has no signature of this origin (%(origin)s).")
            % {"version": version, "origin": origin}
            if origin
            else _("%(version)s has no signature.") % {"version": version}
        )
    return bundle


def signatures_of(versions: Sequence[Version]) -> dict[int, list[VersionSignature]]:
    """Return signatures without their bundles, by version: one query for any number of them."""
    found: dict[int, list[VersionSignature]] = {}
    for row in _without_bundles([version.pk for version in versions]):
        found.setdefault(row.version_id, []).append(row)
    return found


@prepared
def _without_bundles(versions: Ids) -> QuerySet[VersionSignature]:
    rows = VersionSignature.objects.filter(version__in=versions)
    return rows.select_related("key").defer("bundle").order_by("origin")


def shown_standing(rows: Sequence[VersionSignature]) -> SignatureStatus:
    """Return the status as `standing_of` does, from the last verification; removed keys do not count."""
    return standing(
        [(row.verdict, row.reason, row.key.name if row.key and row.key.is_in_force else "") for row in rows]
    )
