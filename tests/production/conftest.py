from collections.abc import Iterator

import pytest

from tests.production.site import Host, Role, Site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"), SLIPWAY_DATABASE_CONNECTIONS="12")
    yield made
    made.close()


@pytest.fixture(scope="session")
def host(site: Site) -> Host:
    """A prepared machine."""
    made = site.host()
    made.prepare()
    return made


@pytest.fixture(scope="session")
def web(host: Host) -> Role:
    return host.web()
