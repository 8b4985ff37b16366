"""All commands alike: what destroys or moves traffic is confirmed; a reason is taken where REST takes one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperCommand

from slipway.cli import main
from slipway.cli.context import CliEnvironment
from tests.slipway.described_api import DescribedApi, Operation, commands

CONFIRMED = {
    "alerts turn-off", "alerts unsilence", "delegation end", "environment promote", "environment remove",
    "release return", "client-key revoke", "usage delete-budget",
    "ability delete", "alias delete", "cluster gateway clear", "cluster gateway set", "cluster move",
    "capacity remove-groups", "capacity remove-queue", "cluster remove", "freeze end", "freeze stop",
    "release override",
    "credential remove", "exemption end", "export cancel", "gpu drill run", "gpu healing close-breaker",
    "gpu healing mode", "gpu incident approve", "gpu incident cancel", "group-rule remove", "models cancel",
    "models delete", "models retention apply", "models retention delete", "node agent-token", "node drain",
    "node remove-agent", "objective delete", "service adapter unload", "service indicator remove",
    "release abort", "release approve", "release end-bake", "release reject",
    "release rollback", "release start", "service release-header", "signing distrust", "source unfollow",
    "source webhook-secret", "store collect", "sync cancel", "token revoke", "upload cancel",
    "webhook delete", "webhook disable",
}  # fmt: skip
"""What deletes, ends something for good or moves traffic."""
WORDS = {
    "alias delete": "m production",
    "alias history": "m",
    "alias list": "m",
    "alias protect": "m production",
    "alias unprotect": "m production",
    "bench compare": "1/1 1/2",
    "bench run": "--file {file}",
    "optimize start": "m:v1 --recipe local/int8-dynamic --test t:v1/items.jsonl",
    "cluster add": "west --kubeconfig {file}",
    "cluster change": "west --region eu",
    "cluster gateway set": "west --kind envoy",
    "credential add": "ci main --issuer github --scope read",
    "gpu count expect": "n1 8",
    "gpu drill run": "xid-79 --node n1 --act",
    "gpu healing close-breaker": "{pool} --backlog discard",
    "gpu healing drains": "--within 60",
    "gpu healing mode": "act",
    "gpu kill-switch": "on",
    "gpu prices set": "2.49",
    "environment add": "e --team t --stage staging=s",
    "environment change": "1 --stage staging=s",
    "objective add": "up --service s --target 99.9",
    "logs": "w",
    "usage set-budget": "b --measure requests --amount 1",
    "graph adapt": "1 advise",
    "group-rule edit": "1 --role viewer",
    "images edit": "i --description x",
    "images trial": "i --gpu H100 --works",
    "models edit": "m --task t",
    "models evaluate": "m:v1 --metric accuracy=0.7",
    "models import": "m /srv/m",
    "models signature": "m:v1 --to {file}",
    "models export": "m:v1 acme/new",
    "models sync": "m acme/tiny",
    "models retention apply": "m --preview p",
    "models retention set": "m --keep-last 3",
    "quota set": "t 5GB",
    "service ask": "s Hello",
    "service change": "s --plan direct",
    "service create": "s m:v1 --release-header open",
    "service indicator push": "s refunds {file}",
    "service pod-patch propose": "s {file}",
    "service release-header": "s secret",
    "signing set-policy": "t warn",
    "signing trust": "t ci {file}",
    "source edit": "1 --every 3600",
    "stuck answer": "releases.release 1 key --happened",
    "webhook edit": "1 --url https://hooks.example.org/",
    "gpu incident evidence": "1 --to {file}",
    "gpu incident rma": "1 --to {file}",
}
"""Arguments of those that need others than `1` for each."""
APART = {
    "serve", "models push", "token exchange", "gpu replay", "gpu rules", "gpu disagreements",
    "graph push", "graph run", "graph serve", "apply",
}  # fmt: skip
"""They upload, run a program, take files, ask a CI system, or nobody."""
ONLY_LOOKS = {"preview", "drain-preview", "dry-run", "try"}
SAID = "because of the walk"


class Run:
    """A run of one command, as typed where no terminal is."""

    def __init__(self, words: tuple[str, ...], command: TyperCommand, file: Path) -> None:
        self.name = " ".join(words)
        self.words, self.command, self.file = words, command, file
        self.options = {option for one in command.params for option in one.opts + one.secondary_opts}

    def __call__(self, *, yes: bool = True, reason: bool = True) -> tuple[int, list[tuple[Operation, str]]]:
        """The exit status, and what was asked of the server to change anything."""
        api = DescribedApi()
        more = [
            *(["--yes"] if yes and "--yes" in self.options else []),
            *(["--reason", SAID] if reason and "--reason" in self.options else []),
            *(["--no-wait"] if "--no-wait" in self.options else []),
        ]
        with pytest.raises(SystemExit) as ended:
            main([*self.words, *more, *self._arguments()], outside=CliEnvironment(transport=api))
        return int(ended.value.code or 0), [
            (one, str(request.url.params) + request.read().decode())
            for one, request in api.sent
            if one.method != "GET" and ONLY_LOOKS.isdisjoint(one.path.split("/"))
        ]

    def _arguments(self) -> list[str]:
        if (given := WORDS.get(self.name)) is not None:
            return given.format(file=self.file, pool="prague/default").split()
        found = []
        for one in self.command.params:
            if one.required:
                value = "m:v1" if one.metavar == "MODEL:VERSION" else "1"
                found += [value] if one.param_type_name == "argument" else [one.opts[0], value]
        return found


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("SLIPWAY_TOKEN", "slp_x")
    file = tmp_path / "file"

    def each() -> Iterator[Run]:
        for words, command in commands():
            if " ".join(words) not in APART:
                file.write_text("{}")
                yield Run(words, command, file)

    return each()


def test_what_destroys_or_moves_traffic_needs_yes_where_nobody_can_be_asked(
    runs: Iterator[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    asking, wrong = set(), []
    for run in runs:
        if "--yes" in run.options:
            asking.add(run.name)
            unsaid = run(yes=False)
            if unsaid != (2, []) or "--yes" not in capsys.readouterr().err:
                wrong.append((run.name, unsaid))
        status, changes = run()
        if status == 2 or ("--yes" in run.options and not changes):
            wrong.append((run.name, capsys.readouterr().err))
        if any(one.method == "DELETE" for one, _ in changes) and "--yes" not in run.options:
            wrong.append((run.name, "deletes unasked"))
        capsys.readouterr()
    assert wrong == []
    assert asking == CONFIRMED


def test_a_reason_is_taken_where_rest_takes_one_and_demanded_where_rest_demands_it(
    runs: Iterator[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    for run in runs:
        _, changes = run()
        taking = [(one, told) for one, told in changes if one.reason]
        if changes and ("--reason" in run.options) is not bool(taking):
            wrong.append((run.name, [one.name for one, _ in changes]))
        wrong += [
            (run.name, told) for _, told in taking if json.dumps(SAID) not in told and "reason=b" not in told
        ]
        capsys.readouterr()
        status, unreasoned = run(reason=False)
        err = capsys.readouterr().err
        if any(one.reason == "required" for one, _ in taking):
            if (status, unreasoned) != (2, []) or "--reason" not in err:
                wrong.append((run.name, f"{status}, a reason is required"))
        elif status == 2 or len(unreasoned) != len(changes):
            wrong.append((run.name, err))
    assert wrong == []
