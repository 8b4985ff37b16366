"""Nothing is sent into our own network, in whatever spelling it is named."""

import pytest

from common.errors import Invalid
from common.outbound.addresses import address_of
from common.outbound.faults import Forbidden
from common.webhooks.destination import AllowedHosts, judge, parse

NOTHING = AllowedHosts()
PUBLIC = "93.184.215.14"

HOSTILE = [
    "https://127.0.0.1/",
    "https://127.1/",
    "https://127.0.0.1./",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://0/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://10.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1:8443/",
    "https://100.64.0.1/",
    "https://100.100.100.200/latest/meta-data/",
    "https://169.254.169.254/latest/meta-data/",
    "https://2852039166/latest/meta-data/",
    "https://0xa9fea9fe/",
    "https://168.63.129.16/machine",
    "https://192.0.0.192/opc/v2/",
    "https://192.88.99.1/",
    "https://198.18.0.1/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://[::]/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[::ffff:0:7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::a00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "https://[fd00:ec2::254]/",
    "https://[fc00::1]/",
    "https://[fe80::1]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[2001:db8::1]/",
    "https://localhost/",
    "https://LOCALHOST./",
    "https://deep.localhost/",
    "http://hooks.example.org@127.0.0.1/",
]

MALFORMED = [
    "",
    "hooks.example.org/x",
    "//hooks.example.org/x",
    "ftp://hooks.example.org/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "javascript:alert(1)",
    "https://",
    "https:///x",
    "https://user:secret@hooks.example.org/",
    "https://user@hooks.example.org/",
    "https://hooks.example.org#@127.0.0.1/",
    "https://hooks.example.org/#part",
    "https://hooks.example.org\\@127.0.0.1/",
    "https://hooks.example.org:0/",
    "https://hooks.example.org:/",
    "https://hooks.example.org:99999/",
    "https://hooks.example.org:port/",
    "https://hooks.example.org /",
    "https://hooks.example.org/\r\nX-Evil: 1",
    "https://hooks.example.org/\x00",
    "https://hoo\u212as.example.org/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://[fe80::1%25eth0]/",
    "https://[::1",
    "https://[hooks]/",
    "https://256.256.256.256/",
    "https://1.2.3.4.5/",
    "https://-bad-.example.org/",
    "https://a..b/",
    "https://" + "a" * 64 + ".example.org/",
    "https://hooks.example.org/" + "x" * 2000,
]


@pytest.mark.parametrize("url", HOSTILE + MALFORMED)
def test_what_leads_inward_or_nowhere_is_refused_with_a_sentence_before_anything_is_asked(url: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse(url, NOTHING)
    assert set(refusal.value.fields) == {"url"}
    assert refusal.value.fields["url"][0].endswith(".")


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://hooks.example.org", "https://hooks.example.org/"),
        ("https://Hooks.Example.org:443/a?b=c", "https://hooks.example.org/a?b=c"),
        ("https://hooks.example.org:8443/%0a", "https://hooks.example.org:8443/%0a"),
        ("https://93.184.215.14/x", "https://93.184.215.14/x"),
        ("https://[2606:4700::1111]:444/", "https://[2606:4700::1111]:444/"),
    ],
)
def test_public_addresses_are_taken_apart(url: str, asked: str) -> None:
    assert str(parse(url, NOTHING).url) == asked


@pytest.mark.parametrize(
    "found",
    [
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["10.0.0.5"],
        ["::1"],
        ["::ffff:10.0.0.5"],
        ["fe80::1%2"],
        ["64:ff9b::a00:5"],
        [PUBLIC, "192.168.0.1"],
    ],
)
def test_a_public_name_that_leads_inward_is_refused(found: list[str]) -> None:
    place = parse("https://rebind.example.org/", NOTHING)
    with pytest.raises(Forbidden, match=r"rebind\.example\.org"):
        judge(place, [address_of(text) for text in found], NOTHING)


def test_plain_http_is_for_allowed_hosts_only() -> None:
    for url in ("http://hooks.example.org/", f"http://{PUBLIC}/"):
        with pytest.raises(Invalid, match="https"):
            parse(url, NOTHING)
    # The name may lead into an allowed network: that is seen when it is sent there.
    networks = AllowedHosts.of(["10.0.0.0/8"])
    place = parse("http://hooks.example.org/", networks)
    with pytest.raises(Forbidden, match="https"):
        judge(place, [address_of(PUBLIC)], networks)
    named = AllowedHosts.of(["hooks.example.org"])
    judge(place, [address_of(PUBLIC)], named)


@pytest.mark.parametrize(
    ("entries", "url", "leads_to", "passes"),
    [
        (["10.0.0.0/8"], "https://hooks.internal/", "10.1.2.3", True),
        (["10.0.0.0/8"], "http://10.1.2.3/", "", True),
        (["10.0.0.0/8"], "https://hooks.internal/", "192.168.0.1", False),
        (["10.0.0.0/8"], "https://[::ffff:10.1.2.3]/", "", True),
        (["fd00::/8"], "https://hooks.internal/", "fd00::5", True),
        (["hooks.internal"], "http://HOOKS.internal./", "10.1.2.3", True),
        (["hooks.internal"], "https://evil-hooks.internal/", "10.1.2.3", False),
        (["hooks.internal"], "https://hooks.internal.example.org/", "10.1.2.3", False),
        (["*.internal"], "https://a.b.internal/", "10.1.2.3", True),
        ([".internal"], "https://internal/", "10.1.2.3", False),
        (["localhost"], "http://localhost/", "127.0.0.1", True),
        (["127.0.0.1"], "http://127.0.0.1/", "", True),
        (["127.0.0.1"], "http://127.0.0.2/", "", False),
    ],
)
def test_what_the_installation_allows_passes_and_nothing_beside_it(
    entries: list[str], url: str, leads_to: str, passes: bool
) -> None:
    allowed = AllowedHosts.of(entries)

    def reach() -> None:
        place = parse(url, allowed)
        judge(place, [address_of(leads_to or place.host)], allowed)

    if passes:
        reach()
    else:
        with pytest.raises((Invalid, Forbidden), match="SLIPWAY_WEBHOOK_ALLOWED_HOSTS"):
            reach()


@pytest.mark.parametrize("entry", ["", "*", "10.0.0.1/8", "a b", "127.1", "https://x"])
def test_an_entry_that_allows_nothing_definite_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a host name nor a network"):
        AllowedHosts.of([entry])
