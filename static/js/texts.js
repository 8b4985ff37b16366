// The words of the page's language: `{% texts %}` puts what the modules say beside them, English needs nothing.
const root = document.documentElement;
const texts = JSON.parse(document.getElementById("texts")?.textContent || "{}");

export const language = root.lang || "en";
// Of the person's settings; empty: the browser's.
export const timeZone = root.dataset.timeZone || "";

export const gettext = (source) => texts[source] ?? source;
export const pgettext = (context, source) => texts[`${context}\u0004${source}`] ?? source;

// The catalogue's languages beside English have one form for all numbers.
export const ngettext = (one, many, count) => texts[one]?.at(-1) ?? (count === 1 ? one : many);

export const interpolate = (text, values) => text.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
