"""What approvers are warned of: secrets in text files, and chat templates that are odd."""

import json
import struct

import pytest

from accounts import keys
from model_store.reading import InMemoryContent
from tests import cast
from tests.models_registry import builders as b
from trust.formats import gguf, templates
from trust.formats.secrets import found_in
from trust.formats.warnings import warnings_of

TOKEN = "hf_" + "aB3" * 11 + "x"
SECRETS = {
    "a private key": "-----BEGIN RSA PRIVATE KEY-----",
    "a token of Hugging Face": TOKEN,
    "a key of AWS": "AKIA" + "ABCD1234" * 2,
    "a token of GitHub": "ghp_" + "a1B2" * 9,
    "a token of GitLab": "glpat-" + "a1B2" * 5,
    "a token of Slack": "xoxb-" + "123456789-" * 3,
    "a secret key (sk-)": "sk-proj-" + "a1B2" * 12,
    "a token of Slipway": keys.new_key().text,
    "a key of Google": "AIza" + "a1B2_" * 7,
}
CHATML = (
    "{%- for message in messages if message['role'] != 'system' -%}\n"
    "{%- if loop.first and not tools is defined -%}{{ raise_exception('No tools') }}{%- endif -%}\n"
    "{{ '<|im_start|>' + message.role + '\\n' + message['content'] | trim }}\n"
    "{%- set ns = namespace(last=loop.last) -%}{%- generation -%}{{ message.content.split('</think>')[-1] }}"
    "{%- endgeneration -%}{%- if ns.last -%}{%- break -%}{%- endif -%}\n"
    "{%- endfor -%}{%- macro shown(tool) -%}{{ tool | tojson(indent=2) }}{%- endmacro -%}"
    "{%- for tool in tools or [] -%}{{ shown(tool.function) }}{%- endfor -%}"
)


@pytest.mark.parametrize("what", SECRETS)
def test_a_secret_is_told_by_its_line_and_not_shown(what: str) -> None:
    text = f"# Use\n\n    token = '{SECRETS[what]}'\n".encode()
    assert found_in(InMemoryContent(text)) == [(3, what)]
    warned = warnings_of("README.md", "text", InMemoryContent(text))
    assert SECRETS[what] not in repr(warned)


def test_what_only_looks_a_little_like_a_secret_is_none() -> None:
    text = (
        "hf_hub_download sk-learn-like-pipelines-with-many-long-words-here task-1 AKIA xoxb ghp_ PRIVATE KEY"
    )
    assert found_in(InMemoryContent(text.encode())) == []


@pytest.mark.parametrize("before", [1024 * 1024 - 20, 1024 * 1024 - 1, 1024 * 1024, 3 * 1024 * 1024])
def test_a_secret_is_found_once_wherever_it_stands_in_a_large_file(before: int) -> None:
    lines = "word word\n" * (before // 10)
    text = lines + "x" * (before - len(lines) - 1) + " " + TOKEN + "\n" + "more\n" * 300_000
    assert found_in(InMemoryContent(text.encode())) == [(before // 10 + 1, "a token of Hugging Face")]


def test_an_ordinary_chat_template_raises_no_doubt() -> None:
    assert templates.doubts(CHATML) == []


ODD = {
    "{{ messages.__class__ }}": "reaches for '__class__'",
    "{{ messages['__globals__'] }}": "reaches for '__globals__'",
    "{{ messages | attr('x') }}": "uses the filter 'attr'",
    "{{ messages | map(attribute='__init__') }}": "reaches for '__init__'",
    "{{ '{0.real}'.format(messages) }}": "calls the method 'format'",
    "{{ open('/etc/passwd') }}": "calls 'open'",
    "{% import 'x' as y %}": "loads another template",
    "{% include 'x' %}": "loads another template",
    "{% if %}": "does not parse",
    "{{ " + "9" * 5000 + " }}": "does not parse",
    "{{ " + "(" * 5000 + ")" * 5000 + " }}": "nested too deeply",
    "{% if x %}" * 200 + "{% endif %}" * 200: "nested too deeply",
    "{{ x }}" * 100_000: "larger than 256 KiB",
}


@pytest.mark.parametrize("source", ODD, ids=lambda source: source[:40])
def test_an_odd_chat_template_is_doubted_with_the_reason(source: str) -> None:
    assert any(ODD[source] in reason for _, reason in templates.doubts(source))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("tokenizer_config.json", {"chat_template": "{{ a.__b__ }}"}),
        ("tokenizer_config.json", {"chat_template": [{"name": "tools", "template": "{{ a.__b__ }}"}]}),
        ("chat_template.json", {"chat_template": "{{ a.__b__ }}"}),
        ("chat_template.jinja", "{{ a.__b__ }}"),
    ],
)
def test_templates_are_found_wherever_engines_look_for_them(path: str, content) -> None:
    is_text = isinstance(content, str)
    data = (content if is_text else json.dumps(content)).encode()
    (warned,) = warnings_of(path, "text" if is_text else "json", InMemoryContent(data))
    assert (warned.kind, warned.path, warned.line) == ("template", path, 1)


def texts_of(*texts: str) -> bytes:
    return struct.pack("<IQ", 8, len(texts)) + b"".join(b.gguf_string(text) for text in texts)


@pytest.mark.parametrize(
    "told",
    [
        ("tokenizer.chat_template", 8, b.gguf_string("{{ a.__b__ }}")),
        ("tokenizer.chat_template.tool_use", 8, b.gguf_string("{{ a.__b__ }}")),
        ("tokenizer.chat_templates", 9, texts_of("tool_use", "{{ a.__b__ }}")),
    ],
    ids=lambda told: told[0],
)
def test_templates_inside_a_gguf_file_are_found(told) -> None:
    around = [("tokenizer.ggml.tokens", 9, texts_of("{{ b.__c__ }}")), told, ("x.y", 4, b.u32(7))]
    (warned,) = warnings_of("m.gguf", "gguf", InMemoryContent(b.gguf(around)))
    assert (warned.kind, warned.path, warned.line) == ("template", "m.gguf", 1)
    assert "'__b__'" in warned.reason


def test_a_gguf_file_without_a_template_or_with_an_ordinary_one_raises_no_warning() -> None:
    ordinary = [
        ("tokenizer.chat_template", 8, b.gguf_string(CHATML)),
        ("tokenizer.chat_templates", 9, texts_of("tool_use", "rag")),
        ("tokenizer.chat_template.x", 9, struct.pack("<IQ", 4, 2) + b.u32(1) + b.u32(2)),
    ]
    for content in (b.gguf(), b.gguf(ordinary)):
        assert warnings_of("m.gguf", "gguf", InMemoryContent(content)) == ()


def test_of_endless_templates_in_a_gguf_file_the_beginnings_of_twenty_are_looked_at() -> None:
    large = "{{ x }}" * 50_000
    content = b.gguf([("tokenizer.chat_templates", 9, texts_of(*[large] * 30))])
    (warned,) = warnings_of("m.gguf", "gguf", InMemoryContent(content))
    assert "larger than 256 KiB" in warned.reason
    found = gguf.chat_templates(InMemoryContent(content), most=20, max_bytes=10)
    assert found == [large[:10]] * 20


def test_a_version_with_warnings_is_ready_and_tells_them(library, actor, model, client) -> None:
    b.write(library.root / "model", {"notes.txt": TOKEN.encode(), "chat_template.jinja": b"{% if %}"})
    version = library.ready(actor, model)
    told = {(one["kind"], one["path"], one["line"]) for one in version.scan["warnings"]}
    assert told == {("secret", "notes.txt", 1), ("template", "chat_template.jinja", 1)}
    assert TOKEN not in json.dumps(version.scan)
    client.force_login(cast.person("dora", vision="viewer"))
    page = client.get("/models/tiny/v1/").content.decode()
    assert "It seems to hold a token of Hugging Face." in page
    assert TOKEN not in page
