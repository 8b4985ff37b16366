// Numbers and times as people read them. The same rules as common/pages/formats.py; one table of cases tests both.

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
  if (seconds < 1) return `<1${SPACE}s`;
  return seconds < 60 ? `${Math.floor(seconds)}${SPACE}s` : wholeSeconds(Math.floor(seconds));
}

function wholeSeconds(whole) {
  if (whole < 3600) return `${Math.floor(whole / 60)}${SPACE}min${SPACE}${two(whole % 60)}${SPACE}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) {
    return `${Math.floor(minutes / 60)}${SPACE}h${SPACE}${two(minutes % 60)}${SPACE}min`;
  }
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}${SPACE}d${SPACE}${hours % 24}${SPACE}h`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

// Both in milliseconds since 1970.
export function relative(moment, now) {
  const seconds = (now - moment) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 3) return "just now";
  if (distance >= 30 * 86400) {
    const date = new Date(moment);
    return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
  }
  const [size, unit] =
    distance < 60 ? [1, "s"] : distance < 3600 ? [60, "min"] : distance < 86400 ? [3600, "h"] : [86400, "d"];
  const amount = `${Math.floor(distance / size)}${SPACE}${unit}`;
  return seconds > 0 ? `${amount} ago` : `in ${amount}`;
}

export const due = (moment, now) => (moment - now < 3000 ? "due now" : `next ${relative(moment, now)}`);

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
