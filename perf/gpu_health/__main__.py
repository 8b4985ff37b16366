import argparse
import sys
from pathlib import Path

from perf import gpu_health
from perf.gpu_health import agent, healing, logs
from perf.required import report

PARTS = ("logs", "healing", "agent")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.gpu_health",
        description=gpu_health.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="; ".join(PARTS))
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=60, help="that the agent is watched for")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--storm", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--with-cpu", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        logs.read_alone(options.read)
        return 0
    if options.storm:
        healing.alone(options.storm, counts_cpu=options.with_cpu)
        return 0
    parts = options.parts or PARTS
    rows = []
    if "logs" in parts:
        rows += logs.rows(megabytes=options.megabytes, rounds=options.rounds)
    if "healing" in parts:
        rows += healing.rows()
    if "agent" in parts:
        rows += agent.rows(seconds=options.seconds)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
