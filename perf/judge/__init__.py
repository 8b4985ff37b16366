"""How the judge does beside the rules that other tools use: `python -m perf.judge [--runs 2000]`.

Simulates releases of 60 minutes whose candidate share rises evenly from 5 to 50 %, one look a minute, and
prints how often each rule rolls back an equal candidate, catches a worse one, and blames it for an outage
that both sides share; then how many candidate requests certify an equal candidate, how late a defect is
caught that starts after hours of good behaviour, and what a look costs. The e-processes are vectorised here
and compared with `releases.judge` first.

`--grid` goes over requests per second x risk ratio x trouble (sessions, outage, tide, lag, lost scrapes)
beside Flagger's, Argo's and Kayenta's rules: `--grid --runs 50` takes two minutes, 2,000 runs an hour. It
fails when a promise is broken in a cell.
"""

import os

import django

# The texts of plans and rules, and the kinds of steps, are there when Django has loaded.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")
django.setup()
