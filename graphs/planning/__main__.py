"""The job that plans: a request as JSON on its standard input."""

import sys

from common.jobs.run import read_json, run
from graphs.planning.documents import answer

if __name__ == "__main__":
    sys.exit(run(lambda _running: answer(read_json())))
