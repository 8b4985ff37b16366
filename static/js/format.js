// Numbers and times as people read them. The same rules as common/pages/formats.py; one table of cases tests both.

import { gettext, interpolate, language, pgettext, timeZone } from "slipway/texts";

export const NO_VALUE = "–";
const SPACE = "\u00a0";
const DECIMAL = ["B", "kB", "MB", "GB", "TB", "PB"];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const missing = (value) => value === null || value === undefined || Number.isNaN(value);
const halfUp = (value) => Math.sign(value) * Math.round(Math.abs(value));
export const grouped = (value) =>
  halfUp(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");

export function threeDigits(value) {
  const size = Math.abs(value);
  if (size < 9.995) return value.toFixed(2);
  if (size < 99.95) return value.toFixed(1);
  return grouped(value);
}

function scaled(value, base, units) {
  let index = 0;
  while (Math.abs(value) >= base - 0.5 && index < units.length - 1) {
    value /= base;
    index += 1;
  }
  return `${index === 0 ? grouped(value) : threeDigits(value)}${SPACE}${units[index]}`;
}

export const bytes = (count) => (missing(count) ? NO_VALUE : scaled(count, 1000, DECIMAL));
export const memory = (count) => (missing(count) ? NO_VALUE : scaled(count, 1024, BINARY));
export const byteRate = (perSecond) => (missing(perSecond) ? NO_VALUE : `${bytes(perSecond)}/s`);
export const count = (value) => (missing(value) ? NO_VALUE : grouped(value));

export function rate(perSecond, unit = "req") {
  if (missing(perSecond)) return NO_VALUE;
  return `${perSecond === 0 ? "0" : threeDigits(perSecond)}${SPACE}${unit}/s`;
}

export function percent(share, digits = 0) {
  if (missing(share)) return NO_VALUE;
  const hundredths = share * 100;
  const text = hundredths.toFixed(digits);
  const smallest = (10 ** -digits).toFixed(digits);
  if (hundredths > 0 && Number(text) === 0) return `<${smallest}%`;
  if (hundredths < 100 && Number(text) === 100) return `>${(100 - 10 ** -digits).toFixed(digits)}%`;
  return `${text}%`;
}

// How far towards a limit; below zero, towards the one on the other side.
export const way = (share) => (missing(share) ? NO_VALUE : percent(Math.abs(share)));

const two = (value) => String(value).padStart(2, "0");

export function duration(seconds) {
  if (missing(seconds)) return NO_VALUE;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return `0${SPACE}s`;
  if (seconds < 0.0005) return `<1${SPACE}ms`;
  if (seconds < 0.9995) return `${(seconds * 1000).toFixed(0)}${SPACE}ms`;
  if (seconds < 59.95) return `${threeDigits(seconds)}${SPACE}s`;
  return wholeSeconds(Math.floor(seconds + 0.5));
}

export function span(seconds) {
  if (missing(seconds)) return NO_VALUE;
  const unit = pgettext("unit", "s");
  if (seconds < 1) return `<1${SPACE}${unit}`;
  return seconds < 60 ? `${Math.floor(seconds)}${SPACE}${unit}` : wholeSeconds(Math.floor(seconds));
}

const twoUnits = (amount, unit, rest, smaller) => [amount, unit, rest, smaller].join(SPACE);

function wholeSeconds(whole) {
  if (whole < 3600) return twoUnits(Math.floor(whole / 60), pgettext("unit", "min"), two(whole % 60), pgettext("unit", "s"));
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) {
    return twoUnits(Math.floor(minutes / 60), pgettext("unit", "h"), two(minutes % 60), pgettext("unit", "min"));
  }
  const hours = Math.floor(minutes / 60);
  return twoUnits(Math.floor(hours / 24), pgettext("unit", "d"), hours % 24, pgettext("unit", "h"));
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function dateOf(moment) {
  const part = partsOf(moment);
  if (language !== "en") return new Intl.DateTimeFormat(language, { dateStyle: "long", timeZone: timeZone || undefined }).format(moment);
  return `${Number(part.day)} ${MONTHS[part.month - 1]} ${part.year}`;
}

const local = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hour12: false, timeZoneName: "shortOffset", timeZone: timeZone || undefined,
});

export const partsOf = (moment) =>
  Object.fromEntries(local.formatToParts(moment).map(({ type, value }) => [type, value]));

// `2026-11-21 09:24:05 UTC+8`: in the time zone of the person's settings, or the browser's.
export function absolute(moment) {
  const part = partsOf(moment);
  const zone = part.timeZoneName.replace("GMT", "UTC");
  return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second} ${zone}`;
}

// Both in milliseconds since 1970.
export function relative(moment, now) {
  const seconds = (now - moment) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 3) return gettext("just now");
  if (distance >= 30 * 86400) return dateOf(moment);
  const [size, unit] =
    distance < 60 ? [1, pgettext("unit", "s")] :
    distance < 3600 ? [60, pgettext("unit", "min")] :
    distance < 86400 ? [3600, pgettext("unit", "h")] : [86400, pgettext("unit", "d")];
  const amount = `${Math.floor(distance / size)}${SPACE}${unit}`;
  return interpolate(seconds > 0 ? gettext("%(amount)s ago") : gettext("in %(amount)s"), { amount });
}

export const due = (moment, now) =>
  moment - now < 3000 ? gettext("due now") : interpolate(gettext("next %(moment)s"), { moment: relative(moment, now) });

export const plain = (value) => (missing(value) ? NO_VALUE : threeDigits(value));

// By the names that `common.pages.charts.Unit` and `data-live-as` use.
export const FORMATS = {
  count,
  percent,
  share: (value) => percent(value, 1),
  way,
  points: (value) => (missing(value) ? NO_VALUE : `${value.toFixed(1)}%`),
  bytes,
  memory,
  byte_rate: byteRate,
  rate,
  seconds: duration,
  span,
  plain,
  text: (value) => (missing(value) || value === "" ? NO_VALUE : String(value)),
};
