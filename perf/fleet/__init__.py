"""What the fleet costs at scale: its workers' reports, the pages that watch it, and its memory.

`python -m perf.fleet reports|watchers|page|history|all`: a real web process (uvicorn) with a real Valkey and
SQLite in a temporary home, and clients in processes of their own. Figures are the web process's own CPU and
memory, delays and ratios of one run; `page` is the time of scripts in a real Chromium.
"""
