// Parts of the page that load again at news, `hx-trigger="live:release:12 from:body"`.
//
// One that was not answered shows what is from before the news, and nothing else may come to tell it: it asks
// again, ever less often. News that come while one is loading are not in what it loads: it asks once more. htmx
// does so itself as long as the element stays, but forgets what waits for one that its answer replaces. (What takes its place listens at once: `defaultSettleDelay` is 0.)
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 60_000;
const failed = new Map(); // id -> how many times in a row
const loading = new Set(); // ids
const late = new Set(); // ids of those for which there were news meanwhile

const isPart = (elt) => elt?.id && elt.getAttribute("hx-trigger")?.includes("live:");

function ask(id) {
  const part = document.getElementById(id);
  if (part?.hasAttribute("hx-get")) window.htmx.ajax("GET", part.getAttribute("hx-get"), { source: part });
}

export function start() {
  document.body.addEventListener("htmx:trigger", ({ target }) => loading.has(target.id) && late.add(target.id));
  document.body.addEventListener("htmx:beforeRequest", ({ target }) => isPart(target) && loading.add(target.id));
  document.body.addEventListener("htmx:afterRequest", ({ detail }) => {
    const { requestConfig: { elt }, xhr } = detail;
    if (!isPart(elt)) return;
    loading.delete(elt.id);
    const isLate = late.delete(elt.id);
    if (xhr.status !== 0 && xhr.status < 500) {
      failed.delete(elt.id);
      if (isLate && !elt.isConnected) ask(elt.id);
      return;
    }
    const times = failed.get(elt.id) ?? 0;
    failed.set(elt.id, times + 1);
    setTimeout(() => ask(elt.id), Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** times));
  });
}
