"""How long the console's pages take: `python -m perf.console [--rounds 20]` prints a table.

Against a running stack (`bin/up --sample`): signs in as the administrator, follows every link from the Home
page to every page of the console, then asks for all of them in turns, one at a time, as one person would.
Limit: 100 ms (p95). Times are of the whole answer, without the browser's own work.
"""

import argparse
import re
import time
from collections import defaultdict
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx2

from perf.gateway import percentile

LINK = re.compile(r"""<a\b[^>]*?\bhref=["']([^"'#?]+)""")
TOKEN = re.compile(r"""name=["']csrfmiddlewaretoken["'] value=["']([^"']+)""")
NOT_PAGES = ("/admin/", "/api/", "/static/", "/accounts/logout")
LIMIT_MS = 100.0


def sign_in(http: httpx2.Client, password: str) -> None:
    page = http.get("/accounts/login/")
    token = TOKEN.search(page.text)
    if token is None:
        raise SystemExit("The sign-in page has no form: is --url the console?")
    form = {"login": "admin", "password": password, "csrfmiddlewaretoken": token.group(1)}
    answer = http.post("/accounts/login/", data=form, headers={"Referer": str(page.url)})
    if answer.url.path.startswith("/accounts/login"):
        raise SystemExit("The console does not let admin in with the password of --home.")


def pages(http: httpx2.Client) -> list[str]:
    """The path of every page that links lead to, and which answers 200 with HTML."""
    found, waiting, seen = [], ["/"], {"/"}
    while waiting:
        path = waiting.pop(0)
        answer = http.get(path)
        if answer.url.path != path or answer.status_code != 200:
            if answer.status_code >= 400:
                print(f"{path} answers {answer.status_code}")
            continue
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        found.append(path)
        for link in LINK.findall(answer.text):
            target = urlsplit(urljoin(str(answer.url), unescape(link)))
            ours = target.netloc == urlsplit(str(http.base_url)).netloc
            if ours and target.path not in seen and not target.path.startswith(NOT_PAGES):
                seen.add(target.path)
                waiting.append(target.path)
    return sorted(found)


def kind(path: str) -> str:
    """Pages of one kind share a row: `/releases/17/` is `/releases/…/`."""
    return re.sub(r"/\d+(?=/)", "/…", path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--home", type=Path, default=Path("var"), help="SLIPWAY_HOME, for its admin-password")
    options = parser.parse_args()
    taken: dict[str, list[float]] = defaultdict(list)
    size: dict[str, int] = {}
    with httpx2.Client(base_url=options.url, follow_redirects=True, timeout=30) as http:
        sign_in(http, (options.home / "admin-password").read_text().strip())
        paths = pages(http)
        for _ in range(options.rounds):
            for path in paths:
                began = time.perf_counter()
                answer = http.get(path)
                taken[kind(path)].append((time.perf_counter() - began) * 1000)
                size[kind(path)] = len(answer.content)
    every = [milliseconds for values in taken.values() for milliseconds in values]
    rows = [*sorted(taken.items(), key=lambda row: -percentile(row[1], 0.95)), ("every page", every)]
    width = max(len(name) for name, _ in rows)
    for name, values in rows:
        p50, p95 = percentile(values, 0.5), percentile(values, 0.95)
        over = "  over the limit" if p95 > LIMIT_MS else ""
        largest = f"{size[name] / 1024:6.1f} KiB" if name in size else ""
        print(f"{name:<{width}}  p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  {largest}{over}")
    print(f"{len(paths)} pages, {options.rounds} rounds; limit {LIMIT_MS:.0f} ms")


if __name__ == "__main__":
    main()
