"""YAML from outside costs no more than its length, and says nothing back of what it holds."""

import subprocess
import sys

import pytest

from kube.access import Access, FixedToken
from kube.errors import BadConfig
from kube.kubeconfig import access_of
from kube.untrusted_yaml import BadYaml, load
from models_registry.facts.figures import figures_of_card

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8)
)
SMALL_BOMB = BOMB + "kind: Config\ncurrent-context: *a6\ncontexts: []\n"


def test_aliases_are_refused_before_they_multiply() -> None:
    assert len(SMALL_BOMB) < 499
    with pytest.raises(BadConfig, match="line 1 has an anchor or an alias") as refused:
        access_of(SMALL_BOMB)
    assert len(str(refused.value)) < 300
    assert figures_of_card(f"model-index: *x\n{SMALL_BOMB}") == ()


def test_the_bomb_costs_no_memory() -> None:
    code = (
        "import resource, sys\n"
        "from kube.errors import BadConfig\n"
        "from kube.kubeconfig import access_of\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    access_of(sys.stdin.read())\n"
        "except BadConfig as error:\n"
        "    print(len(str(error)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=SMALL_BOMB, capture_output=True, text=True, check=True
    )
    length, kib = map(int, done.stdout.split())
    assert length < 300
    assert kib < 8 * 1024


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100 + "]" * 100,
        "a: " * 3 + "b",
        "- x\n" * 30_000,
        "x" * 300_000,
        "a: &x 1",
        "a: *x",
        "<<: *x",
        "\0",
        "a: [",
        "{a: b",
    ],
    ids=["deep", "nested keys", "many", "long", "anchor", "alias", "merge", "nul", "open list", "open map"],
)
def test_what_is_too_much_or_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(BadYaml):
        load(text)


def test_texts_stay_texts() -> None:
    assert load(
        "a: 0123\nb: 2026-01-01\nc: no\nd: 'null'\ne:\nf: true\ng: 1e3\nh: !!python/object:os.x y"
    ) == {
        "a": "0123",
        "b": "2026-01-01",
        "c": "no",
        "d": "null",
        "e": None,
        "f": True,
        "g": "1e3",
        "h": "y",
    }
    assert load("") is None


@pytest.mark.parametrize(
    "server", ["https://10.0.0.1\r\n", "https://10.0.0.1\u200b", "https://10.0.0.1 /", "https://a\tb"]
)
def test_an_address_with_line_breaks_or_hidden_characters_is_refused_at_once(server: str) -> None:
    with pytest.raises(BadConfig, match="line break or a hidden character"):
        Access(server=server, token=FixedToken("x"))
    with pytest.raises(BadConfig, match="hidden character"):
        Access(server="https://10.0.0.1", proxy=server, token=FixedToken("x"))


def test_long_values_are_cut_in_refusals() -> None:
    contexts = f"contexts: [{{name: {'y' * 2_000}, context: {{}}}}]\n"
    text = f"kind: Config\ncurrent-context: {'x' * 200_000}\n{contexts}"
    with pytest.raises(BadConfig) as refused:
        access_of(text)
    assert len(str(refused.value)) < 500


def test_numbers_are_made_of_plain_scalars_where_they_are_asked_for() -> None:
    text = "rates: [1, 2.5, 1e3]\nname: '7'\nversion: 1.2.3\n8: eight\n"
    assert load(text, numbers=True) == {
        "rates": [1, 2.5, 1000.0],
        "name": "7",
        "version": "1.2.3",
        "8": "eight",
    }
    assert load(text)["rates"] == ["1", "2.5", "1e3"]
