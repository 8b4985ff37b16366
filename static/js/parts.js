// Parts of the page that load again at news, `hx-trigger="live:release:12 from:body"`, and were not answered: what
// they show is from before the news, and nothing else may come to tell them. They ask again, ever less often.
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 60_000;
const failed = new Map(); // id -> how many times in a row

export function start() {
  document.body.addEventListener("htmx:afterRequest", ({ detail }) => {
    const { elt, xhr } = detail;
    if (!elt.id || !elt.getAttribute("hx-trigger")?.includes("live:")) return;
    if (xhr.status !== 0 && xhr.status < 500) return failed.delete(elt.id);
    const times = failed.get(elt.id) ?? 0;
    failed.set(elt.id, times + 1);
    setTimeout(() => {
      const part = document.getElementById(elt.id);
      if (part?.hasAttribute("hx-get")) window.htmx.ajax("GET", part.getAttribute("hx-get"), { source: part });
    }, Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** times));
  });
}
