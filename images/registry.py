"""Tags, manifests and configurations of images, as a registry has them. Reads only.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md,
https://github.com/opencontainers/image-spec, tokens: https://distribution.github.io/distribution/spec/auth/token/
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import httpx2
from django.utils.translation import gettext as _

from common.errors import Invalid, SlipwayError
from common.outbound import own_machine
from common.outbound.client import OutboundClient, whole_body

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MAX_DOCUMENT_BYTES = 4 * 2**20
"""The specification advises registries to take manifests up to this size."""
MAX_PAGES = 50
PAGE = 1000
WITHIN_SECONDS = 20.0
_ALIASES = {"docker.io": "registry-1.docker.io"}
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?")


class RegistryFault(SlipwayError):
    """The registry does not answer as it should, or refuses."""


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    username: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class RegistryImage:
    digest: str
    """Of what the tag names: an index, where there is one for several platforms."""
    size_bytes: int
    """Of the layers and the configuration of one platform, compressed."""
    environment: Mapping[str, str]
    labels: Mapping[str, str]


def credentials_of(pull_secret: str, host: str) -> RegistryCredentials | None:
    """Read `auths` of a pull secret (`.dockerconfigjson`). None: it does not name the host.

    Raises Invalid.
    """
    try:
        auths = json.loads(pull_secret)["auths"]
        found = {
            urlsplit(name if "//" in name else f"//{name}").netloc: entry for name, entry in auths.items()
        }
        entry = found.get(host) or found.get({"registry-1.docker.io": "index.docker.io"}.get(host, host))
        if entry is None:
            return None
        if "auth" in entry:
            username, _colon, password = base64.b64decode(entry["auth"]).decode().partition(":")
        else:
            username, password = entry["username"], entry["password"]
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        fault = _("This is no pull secret: give the JSON of a .dockerconfigjson, with auths by registry.")
        raise Invalid(fields={"pull_secret": [fault]}) from None
    return RegistryCredentials(str(username), str(password))


class Registry:
    """A registry, and a path below it where it mirrors others: `https://registry.example.org/mirror`.

    Methods raise RegistryFault and what `common.outbound.faults` holds.
    """

    def __init__(self, url: str, *, pull_secret: str = "") -> None:
        """Raises Invalid."""
        url = (url if "://" in url else f"https://{url}").rstrip("/")
        parts = urlsplit(url)
        try:
            has_port = parts.port is None or parts.port > 0
        except ValueError:
            has_port = False
        is_plain = not (parts.username or parts.query or parts.fragment)
        is_address = parts.scheme in ("https", "http") and parts.hostname and has_port and is_plain
        if not is_address:
            fault = _("Give the address of a registry, such as https://registry.example.org.")
            raise Invalid(fields={"registry": [fault]})
        host = _ALIASES.get(parts.netloc, parts.netloc)
        self._path = parts.path.strip("/")
        self._base = f"{parts.scheme}://{host}"
        self._named = parts.netloc
        self._credentials = credentials_of(pull_secret, host) if pull_secret else None
        self._client = OutboundClient(own_machine.judge)
        self._authorization: dict[str, str] = {}

    def repository(self, path: str) -> str:
        """The name by which clusters pull it, without a digest."""
        return "/".join(part for part in (self._named, self._path, path) if part)

    def tags(self, path: str) -> list[str]:
        address = f"{self._at(path)}/tags/list?n={PAGE}"
        tags: list[str] = []
        for _page in range(MAX_PAGES):
            body, response = self._get(path, address, accept="application/json")
            named = _document(body).get("tags") or []
            tags += [tag for tag in named if isinstance(tag, str)]
            following = response.links.get("next", {}).get("url")
            if not following:
                break
            address = urljoin(address, following)
            if not address.startswith(f"{self._base}/"):
                raise RegistryFault(_("The registry's list of tags goes on at another address."))
        return tags

    def image(self, path: str, reference: str, *, platform: str) -> RegistryImage:
        """Read what a tag or digest names. Digests are computed here, and each child must have its own."""
        body = self._manifest(path, reference)
        digest, manifest = digest_of(body), _document(body)
        if reference.startswith("sha256:") and digest != reference:
            raise RegistryFault(
                _("The registry answers other content than %(digest)s.") % {"digest": reference}
            )
        if manifest.get("mediaType") in INDEXES or "manifests" in manifest:
            child = _child(manifest, platform)
            manifest = _document(self._verified(path, child, self._manifest(path, child)))
        try:
            config = manifest["config"]
            size = sum(int(layer["size"]) for layer in (config, *manifest["layers"]))
            config_digest = str(config["digest"])
        except (KeyError, TypeError, ValueError):
            raise RegistryFault(
                _("%(reference)s names no image of containers.") % {"reference": reference}
            ) from None
        address = f"{self._at(path)}/blobs/{config_digest}"
        blob, _response = self._get(path, address, accept="*/*")
        document = _document(self._verified(path, config_digest, blob)).get("config") or {}
        pairs = (str(one).partition("=") for one in document.get("Env") or ())
        labels = document.get("Labels") or {}
        return RegistryImage(
            digest=digest,
            size_bytes=size,
            environment={name: value for name, _equals, value in pairs},
            labels={str(name): str(value) for name, value in labels.items()},
        )

    def _at(self, path: str) -> str:
        return f"{self._base}/v2/{'/'.join(part for part in (self._path, path) if part)}"

    def _manifest(self, path: str, reference: str) -> bytes:
        address = f"{self._at(path)}/manifests/{reference}"
        return self._get(path, address, accept=", ".join((*INDEXES, *MANIFESTS)))[0]

    def _verified(self, path: str, digest: str, body: bytes) -> bytes:
        if digest_of(body) != digest:
            raise RegistryFault(_("The registry answers other content than %(digest)s.") % {"digest": digest})
        return body

    def _get(self, path: str, address: str, *, accept: str) -> tuple[bytes, httpx2.Response]:
        """Ask once more with a token or a password where the registry wants one."""
        for is_second in (False, True):
            known = self._authorization.get(path)
            secrets = {"Authorization": known} if known else {}
            with self._client.get(address, secret_headers=secrets, headers={"Accept": accept}) as passed:
                response = passed[-1]
                body = whole_body(response, limit_bytes=MAX_DOCUMENT_BYTES, limit_seconds=WITHIN_SECONDS)
            if response.status_code != 401 or is_second:
                break
            self._authorization[path] = self._answer(path, response.headers.get("WWW-Authenticate", ""))
        if response.status_code != 200:
            raise RegistryFault(_refusal(response.status_code, self.repository(path)))
        return body, response

    def _answer(self, path: str, challenge: str) -> str:
        scheme, _space, rest = challenge.partition(" ")
        given = dict(_PARAMETER.findall(rest))
        if scheme.lower() == "bearer" and given.get("realm"):
            return self._token(path, given)
        if scheme.lower() == "basic" and self._credentials is not None:
            return self._credentials.header
        raise RegistryFault(
            _("%(repository)s may not be read without a pull secret.") % {"repository": self.repository(path)}
        )

    def _token(self, path: str, challenge: Mapping[str, str]) -> str:
        realm = challenge["realm"]
        if urlsplit(realm).scheme != "https" and self._base.startswith("https:"):
            raise RegistryFault(
                _("The registry sends for its token to an address without TLS: %(realm)s.")
                % {"realm": realm[:200]}
            )
        scope = challenge.get("scope") or f"repository:{'/'.join(filter(None, (self._path, path)))}:pull"
        query = {"service": challenge.get("service", ""), "scope": scope}
        asked = urlencode({name: value for name, value in query.items() if value})
        address = f"{realm}{'&' if urlsplit(realm).query else '?'}{asked}"
        secrets = {"Authorization": self._credentials.header} if self._credentials else {}
        with self._client.get(
            address, secret_headers=secrets, headers={"Accept": "application/json"}
        ) as passed:
            response = passed[-1]
            body = whole_body(response, limit_bytes=MAX_DOCUMENT_BYTES, limit_seconds=WITHIN_SECONDS)
        if response.status_code != 200:
            raise RegistryFault(_refusal(response.status_code, self.repository(path)))
        document = _document(body)
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str):
            raise RegistryFault(_("The registry's token server answers without a token."))
        return "Bearer " + token


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _child(index: Mapping[str, Any], platform: str) -> str:
    if not _PLATFORM.fullmatch(platform):
        raise Invalid(fields={"platform": [_("Give a platform such as linux/amd64.")]})
    there: dict[str, str] = {}
    for one in index.get("manifests") or ():
        named = one.get("platform") or {}
        name = "/".join(str(named[key]) for key in ("os", "architecture", "variant") if named.get(key))
        there.setdefault(name, str(one.get("digest", "")))
    # Of arm64 most name the variant v8, which is the only one.
    found = there.get(platform) or next(
        (there[name] for name in there if name.startswith(f"{platform}/")), ""
    )
    if not found:
        known = ", ".join(sorted(name for name in there if "unknown" not in name))
        words = {"platform": platform, "known": known[:200]}
        raise RegistryFault(_("It is not built for %(platform)s, but for %(known)s.") % words)
    return found


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise RegistryFault(_("The registry does not answer as the distribution API does."))
    return document


def _refusal(status: int, repository: str) -> str:
    words = {"repository": repository, "status": status}
    if status in (401, 403):
        return (
            _("The registry does not let %(repository)s be read (%(status)s): name a pull secret that may.")
            % words
        )
    if status == 404:
        return _("The registry has no such tag of %(repository)s, or no such repository.") % words
    if status == 429:
        return _("The registry limits requests (429): ask again later, or with a pull secret.")
    return _("The registry answers %(status)s for %(repository)s.") % words
