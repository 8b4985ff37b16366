"""`slipway gpu`: logs judged offline, without a server or a token; and machines that are healed."""

import csv
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from gpu_health.evidence import TooMuchEvidence
from gpu_health.judge import FaultVerdict, JudgedNode, judge
from gpu_health.policy.disagreements import comparisons
from gpu_health.policy.presets import (
    DEFAULT,
    PRESETS,
    complete,
    conditions_of,
    conditions_text,
    fault_title,
    preset,
    rules_of,
)
from gpu_health.policy.rule import (
    BadRule,
    Citation,
    DrainLevel,
    FaultRule,
    Mode,
    RemediationAction,
    Severity,
    Verification,
    version_key,
)
from gpu_health.signals.kernel_log import KernelLogParser, parse
from gpu_health.signals.log_forms import LogForm
from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingKind
from slipway.cli.context import CliContext, Columns, context_of, counted
from slipway.cli.gpu_drains import healing_drains
from slipway.cli.gpu_figures import prices, show_statistics
from slipway.cli.gpu_incidents import healing, incident, kill_switch
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="GPU faults: logs judged offline, machines that are healed.", no_args_is_help=True)

SERVER = "server"
_PRESETS = ", ".join(one.name for one in PRESETS)
Rules = Annotated[str, typer.Option("--rules", help=f"A preset ({_PRESETS}), or a CSV file of rules.")]
ReplayRules = Annotated[
    str,
    typer.Option(
        "--rules",
        help=f"{SERVER}: the rules in force there, with what was changed and added; a preset ({_PRESETS}), "
        "with Slipway's for what it does not speak of; or a CSV file of rules.",
    ),
]
COLUMNS: Columns = {
    "WOULD": "outcome",
    "SEVERITY": "severity",
    "GPU": lambda row: row["device"] or "whole machine",
    "FAULT": "title",
    "SEEN": "count",
    "LADDER": lambda row: " > ".join(row["ladder"]),
    "DRAIN": "drain",
}
RULE_COLUMNS: Columns = {
    "RULE": "name",
    "CONDITIONS": "conditions",
    "SEVERITY": "severity",
    "MODE": "mode",
    "LADDER": lambda row: " > ".join(row["ladder"]),
    "SOURCE": "source",
    "SAYS": "says",
}


@app.command("replay")
def replay(
    typer_context: typer.Context,
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A kernel log (dmesg, kmsg, syslog, journal), or -.")
    ],
    rules: ReplayRules = DEFAULT,
    driver: Annotated[
        str, typer.Option("--driver", help="Driver version of the machine, where the log does not say it.")
    ] = "",
    node: Annotated[str, typer.Option("--node", help="Name of the machine.")] = "",
    year: Annotated[
        int | None, typer.Option("--year", min=1970, max=2999, help="Year of a syslog that names none.")
    ] = None,
) -> None:
    """Show what would be done about the faults in a log, and why. Nothing is done.

    Exit status 1 when nothing in the log could be read.
    """
    context = context_of(typer_context)
    if driver and not version_key(driver):
        raise CommandFailed(f"--driver {driver} is no driver version, such as 570.86.15.", Exit.USAGE)
    chosen = _rules_of_server(context) if rules == SERVER else _rules(rules, whole=True)
    counts: Counter[str] = Counter()
    with _opened(log) as (stream, default_year):
        parser = KernelLogParser(node=node, year=year or default_year)
        try:
            state = JudgedNode(node=node, driver_version=driver)
            form = LogForm(stream)
            verdicts = judge(_counting(parse(form, parser), counts), chosen, state)
        except TooMuchEvidence as error:
            raise CommandFailed(str(error), Exit.FAILED) from None
        except OSError as error:
            raise CommandFailed(f"{log}: {error.strerror or error}.", Exit.USAGE) from None
    if (problem := form.problem(ignored=parser.ignored, readings=counts.total())) and not verdicts:
        raise CommandFailed(f"{log}: {problem}", Exit.FAILED)
    document = {
        "rules": rules,
        "readings": counts.total(),
        "faults": counts[ReadingKind.FAULT],
        "ignored_lines": parser.ignored,
        "verdicts": [verdict_document(verdict) for verdict in verdicts],
    }
    context.show(document)
    _tell(context, document)


@app.command("rules")
def list_rules(
    typer_context: typer.Context,
    rules: Rules = DEFAULT,
    fault: Annotated[str, typer.Option("--fault", help="Only of this fault, such as xid.79.")] = "",
) -> None:
    """List the rules of a preset or a file, and who says so. Those in force are on the server."""
    chosen = [rule_document(rule) for rule in _rules(rules) if fault in ("", rule.fault)]
    if not chosen:
        raise CommandFailed(f"The rules {rules} have none for {fault}.", Exit.USAGE)
    context_of(typer_context).rows(chosen, RULE_COLUMNS)


@app.command("disagreements")
def disagreements(
    typer_context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Also faults on which they agree.")] = False,
) -> None:
    """Show what each source says about a fault, where some would touch the machine and others would not."""
    rows = [
        {
            "fault": one.fault,
            "title": fault_title(one.fault),
            "is_disputed": one.is_disputed,
            "statements": {name: ladder_text(said.strictest) for name, said in one.statements.items()},
        }
        for one in comparisons()
        if one.is_disputed or everything
    ]
    columns: dict[str, Any] = {"FAULT": "title"}
    for known in PRESETS:
        columns[known.title.upper()] = lambda row, name=known.name: row["statements"].get(name, "")
    context_of(typer_context).rows(rows, columns)


def rule_document(rule: FaultRule) -> Document:
    return {
        "name": rule.name,
        "fault": rule.fault,
        "conditions": conditions_text(rule.conditions),
        "severity": str(rule.severity),
        "ladder": [str(action) for action in rule.ladder],
        "drain": str(rule.drain),
        "verification": str(rule.verification),
        "mode": str(rule.mode),
        "source": rule.citation.source,
        "says": rule.citation.says,
        "is_inferred": rule.citation.is_inferred,
    }


def ladder_text(rule: FaultRule) -> str:
    return " > ".join(rule.ladder)


def verdict_document(verdict: FaultVerdict) -> Document:
    return {
        "outcome": str(verdict.outcome),
        "severity": str(verdict.severity),
        "fault": verdict.fault,
        "title": fault_title(verdict.fault),
        "node": verdict.node,
        "device": verdict.device,
        "gpu_uuid": verdict.gpu_uuid,
        "ladder": [str(action) for action in verdict.ladder],
        "drain": str(verdict.drain),
        "verification": str(verdict.verification),
        "rule": verdict.rule,
        "citation": verdict.citation,
        "reasons": list(verdict.reasons),
        "count": verdict.count,
        "first_at": _time(verdict.first),
        "last_at": _time(verdict.last),
        "raw": verdict.last.raw,
    }


def _tell(context: CliContext, document: Document) -> None:
    verdicts = document["verdicts"]
    if not verdicts:
        context.say(f"No fault found by the rules {document['rules']}.")
    else:
        context.tabulate(verdicts, COLUMNS)
        for row in verdicts:
            where = f" on {row['device']}" if row["device"] else ""
            context.say(f"\n{row['title']}{where}: {'; '.join(row['reasons'])}.")
            if row["citation"]:
                context.say(f"  source   {row['citation']}")
            context.say(f"  last     {row['last_at'] or 'no time'}  {row['raw'][:300]}")
        context.say("")
        context.say(f"{counted(document['faults'], 'fault reading')}; nothing was done.")
    if document["ignored_lines"]:
        context.say(
            f"{counted(document['ignored_lines'], 'line')} with the driver's words came from no kernel."
        )


def _rules_of_server(context: CliContext) -> tuple[FaultRule, ...]:
    rows = context.client.get(at("gpu-health", "rules"))["results"]
    try:
        return tuple(
            FaultRule(
                name=row["name"],
                fault=row["fault"],
                enabled=row["enabled"],
                mode=Mode(row["mode"]),
                severity=Severity(row["severity"]),
                conditions=conditions_of(row["conditions"]),
                ladder=tuple(map(RemediationAction, row["ladder"])),
                drain=DrainLevel(row["drain"]),
                verification=Verification(row["verification"]),
                citation=Citation(source=row["source"], says=row["says"], is_inferred=row["is_inferred"]),
                is_own=row["is_own"],
            )
            for row in rows
        )
    except ValueError as error:
        raise CommandFailed(
            f"The server has a rule that this slipway does not know: {error}", Exit.FAILED
        ) from None


def _rules(named: str, *, whole: bool = False) -> tuple[FaultRule, ...]:
    """`whole`: as a server judges by that preset."""
    try:
        if named.endswith(".csv"):
            with Path(named).open(encoding="utf-8", newline="") as lines:
                return rules_of(csv.DictReader(lines), name=Path(named).stem)
        return complete(named) if whole else preset(named)
    except (BadRule, UnicodeDecodeError, csv.Error) as error:
        raise CommandFailed(f"--rules {named}: {error}", Exit.USAGE) from None
    except OSError as error:
        raise CommandFailed(f"--rules {named}: {error.strerror}.", Exit.USAGE) from None


@contextmanager
def _opened(log: str) -> Iterator[tuple[BinaryIO, int]]:
    """The bytes, and the year in which a log was last written to."""
    if log == "-":
        yield sys.stdin.buffer, time.gmtime().tm_year
        return
    path = Path(log)
    try:
        with path.open("rb") as stream:
            yield stream, time.gmtime(path.stat().st_mtime).tm_year
    except OSError as error:
        raise CommandFailed(f"{log}: {error.strerror}.", Exit.USAGE) from None


def _counting(readings: Iterator[GpuReading], counts: Counter[str]) -> Iterator[GpuReading]:
    for reading in readings:
        counts[reading.kind] += 1
        yield reading


def _time(reading: GpuReading) -> Any:
    if reading.clock is ReadingClock.EPOCH:
        return datetime.fromtimestamp(reading.at, UTC).isoformat()
    return f"{reading.at:.3f} s after the start" if reading.clock is ReadingClock.BOOT else None


app.command("kill-switch")(kill_switch)
app.command("stats")(show_statistics)
app.add_typer(prices, name="prices")
app.add_typer(incident, name="incident")
healing.command("drains")(healing_drains)
app.add_typer(healing, name="healing")
