"""A graph over the files of a bucket, with results in another one."""

import json

import pytest

from slipway.cli import main
from tests.model_store.s3_server import S3Server

UPPER = """
from slipway import graph

@graph.task
def upper(text: str) -> str:
    if text == "bad":
        raise ValueError("it is bad")
    return text.upper()

with graph.Graph("upper") as g:
    g.output(upper(g.input("text", str)))
"""


@pytest.fixture
def files(tmp_path, s3: S3Server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    s3.client.create_bucket(Bucket="pictures")
    for name, text in {"a.txt": "one", "b.txt": "bad", "c.txt": "two", "deeper/d.txt": "three"}.items():
        s3.client.put_object(Bucket="pictures", Key=f"in/{name}", Body=text.encode())
    file = tmp_path / "app.py"
    file.write_text(UPPER)
    return file


def run(*words: object) -> int:
    """Return the exit status of `slipway graph run`."""
    with pytest.raises(SystemExit) as ended:
        main(["graph", "run", *map(str, words)])
    return int(ended.value.code or 0)


def test_items_are_read_from_a_bucket_and_results_written_to_one(files, s3: S3Server):
    assert run(files, "s3://pictures/in", "--out", "s3://pictures/out", "--serial") == 1
    kept = s3.client.list_objects_v2(Bucket="pictures", Prefix="out/")["Contents"]
    texts = {
        one["Key"]: s3.client.get_object(Bucket="pictures", Key=one["Key"])["Body"].read() for one in kept
    }
    failed = json.loads(texts.pop("out/failed.jsonl"))
    assert (failed["item"], "it is bad" in failed["reason"]) == ("b", True)
    assert texts == {"out/a.txt": b"ONE", "out/c.txt": b"TWO"}


@pytest.mark.parametrize("source", ["s3://", "gs://pictures/in", "s3://missing/in"])
def test_a_place_that_cannot_be_read_is_refused(files, tmp_path, capsys, source):
    assert run(files, source, "--out", tmp_path / "out", "--serial") == 2
    assert source.rstrip("/") in capsys.readouterr().err
