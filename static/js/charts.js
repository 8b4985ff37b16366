// Draws `data-chart` figures with uPlot in the theme's colours; redraws on resize, theme change and live values.
import uPlot from "uplot";
import { FORMATS } from "slipway/format";

const drawn = new Set();

// A chart shows at least so much time, or its axis would name one second thrice.
const LEAST_SECONDS = 30;
// Pixels to the right of a plot.
const ROOM = 8;

const token = (figure, name) => getComputedStyle(figure).getPropertyValue(name).trim();

// A canvas knows no light-dark(): let the browser resolve the token on a real element.
function colour(figure, name) {
  const probe = document.createElement("i");
  probe.className = `paint-${name}`;
  probe.hidden = true;
  figure.append(probe);
  const resolved = getComputedStyle(probe).color;
  probe.remove();
  return resolved;
}

// In pixels; as the legend's swatches (components.css).
const DASHES = { dashed: [7, 4], dotted: [2, 3], "dash-dot": [8, 3, 2, 3] };

const faded = (paint, share) => `color-mix(in oklab, ${paint} ${share}%, transparent)`;

// An axis states its unit but not three digits: `60 ms`, `0.5 s`, `20`.
const bare = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

const two = (value) => String(value).padStart(2, "0");

function clock(splits, step) {
  return splits.map((split) => {
    const at = new Date(split * 1000);
    if (step >= 86400) return `${at.getDate()} ${at.toLocaleString("en", { month: "short" })}`;
    const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
    return step < 60 ? `${time}:${two(at.getSeconds())}` : time;
  });
}

const powersOfTen = (splits) => splits.map((split) => (Number.isInteger(Math.log10(split)) ? split : null));

function lines(data, paints) {
  return {
    hooks: {
      draw: [
        (plot) => {
          const { ctx } = plot;
          const ratio = uPlot.pxRatio;
          ctx.save();
          ctx.fillStyle = paints.axis;
          ctx.font = `${11 * ratio}px ${paints.font}`;
          ctx.textBaseline = "bottom";
          for (const series of data.series.filter((one) => one.tag)) {
            series.values.forEach((value, at) => {
              if (value === null) return;
              ctx.fillText(series.tag, plot.valToPos(data.x[at], "x", true) + 4 * ratio, plot.valToPos(value, "y", true) - 3 * ratio);
            });
          }
          ctx.restore();
        },
      ],
      drawAxes: [
        (plot) => {
          const { ctx, bbox } = plot;
          const ratio = uPlot.pxRatio;
          ctx.save();
          ctx.lineWidth = ratio;
          ctx.setLineDash([4 * ratio, 3 * ratio]);
          for (const limit of data.limits) {
            const y = Math.round(plot.valToPos(limit.value, "y", true)) + 0.5;
            if (y < bbox.top || y > bbox.top + bbox.height) continue;
            ctx.strokeStyle = paints[limit.paint];
            ctx.beginPath();
            ctx.moveTo(bbox.left, y);
            ctx.lineTo(bbox.left + bbox.width, y);
            ctx.stroke();
          }
          ctx.setLineDash([]);
          ctx.strokeStyle = paints.mark;
          ctx.fillStyle = paints.axis;
          ctx.font = `${11 * ratio}px ${paints.font}`;
          ctx.textBaseline = "top";
          let free = bbox.left; // names do not overprint each other: the line alone stands where there is no room
          for (const mark of data.marks) {
            const x = Math.round(plot.valToPos(mark.at, "x", true)) + 0.5;
            if (x < bbox.left || x > bbox.left + bbox.width) continue;
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
            const width = ctx.measureText(mark.name).width;
            const left = bbox.left + bbox.width - x < width + 8 * ratio;
            const start = left ? x - 4 * ratio - width : x + 4 * ratio;
            if (start < free) continue;
            free = start + width + 4 * ratio;
            ctx.textAlign = "left";
            ctx.fillText(mark.name, start, bbox.top + 2 * ratio);
          }
          ctx.restore();
        },
      ],
    },
  };
}

function range(data) {
  return (_plot, low, high) => {
    const limits = data.limits.map((limit) => limit.value);
    let bottom = data.minimum ?? Math.min(low ?? 0, ...limits);
    let top = data.maximum ?? Math.max(high ?? 1, data.top_at_least ?? -Infinity, ...limits);
    if (top <= bottom) top = bottom + 1;
    const room = (top - bottom) * 0.08;
    if (data.logarithmic) return [data.minimum ?? bottom / 1.5, data.maximum ?? top * 1.5];
    return [data.minimum ?? (bottom >= 0 && bottom < top / 2 ? 0 : bottom - room), data.maximum ?? top + room];
  };
}

// Of time: what the server says that the chart is about, and all that was measured. A line that has just begun starts
// at the left edge and has room to grow.
function stretch(data) {
  return ({ data: [moments, ...columns] }) => {
    // What uPlot proposes is a whole day where there is but one moment.
    const first = moments.findIndex((_, at) => columns.some((values) => values[at] !== null));
    const since = Math.min(data.since ?? Infinity, moments[Math.max(first, 0)]);
    return [since, Math.max(data.until ?? -Infinity, moments.at(-1), since + LEAST_SECONDS)];
  };
}

// Of a quantity: from nothing to a little more than the last position.
const extent = (_plot, _low, high) => [0, (high || 1) * 1.05];

const wordsFor = (data) => FORMATS[data.unit === "percent" ? "share" : data.unit] ?? FORMATS.plain;

// The numbers beside the names: those at the pointer, or the last known ones.
function tell(figure, data, at) {
  const say = wordsFor(data);
  const numbers = figure.querySelectorAll(".legend-entry[data-series] .legend-number");
  data.series.forEach((series, position) => {
    const isPointedAt = at !== null && at !== undefined;
    const text = say(isPointedAt ? series.values[at] : series.values.findLast((value) => value !== null));
    if (numbers[position] && numbers[position].textContent !== text) numbers[position].textContent = text;
  });
}

const lone = (values) => values.flatMap((value, at) => (value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null ? [at] : []));

function options(figure, data, plotBox) {
  const say = wordsFor(data);
  const widest = (plot, texts) => {
    if (!texts) return 32;
    plot.ctx.font = `${11 * uPlot.pxRatio}px ${paints.font}`;
    return Math.max(20, ...texts.map((text) => plot.ctx.measureText(text ?? "").width / uPlot.pxRatio)) + 10;
  };
  // A moment whose words would be cut off at the right edge gets none.
  const whole = (plot, splits, texts) => {
    plot.ctx.font = `${11 * uPlot.pxRatio}px ${paints.font}`;
    const edge = plot.bbox.width / uPlot.pxRatio + ROOM;
    const right = (text, at) => plot.valToPos(at, "x") + plot.ctx.measureText(text).width / uPlot.pxRatio / 2;
    return texts.map((text, position) => (right(text ?? "", splits[position]) > edge ? "" : text));
  };
  const names = new Set([...data.series, ...data.limits].map((entry) => entry.paint));
  const paints = Object.fromEntries([...names].map((name) => [name, colour(figure, name)]));
  paints.axis = colour(figure, "axis");
  paints.grid = colour(figure, "grid");
  paints.mark = colour(figure, "mark");
  paints.font = token(figure, "--tblr-font-sans-serif") || "sans-serif";
  const font = `11px ${paints.font}`;
  const axis = { stroke: paints.axis, font, ticks: { show: false }, grid: { stroke: paints.grid, width: 1 } };
  return {
    width: plotBox.clientWidth,
    height: plotBox.clientHeight,
    padding: [8, ROOM, 0, 0],
    legend: { show: false },
    cursor: { points: { size: 7 }, drag: { x: false, y: false }, y: false },
    plugins: [lines(data, paints)],
    scales: { x: data.axis ? { time: false, range: extent } : { time: true, range: stretch(data) }, y: { range: range(data), distr: data.logarithmic ? 3 : 1 } },
    axes: [
      { ...axis, grid: { show: false }, size: 22, gap: 5, space: 72, values: (plot, splits, _axis, _space, step) => whole(plot, splits, data.axis ? splits.map(String) : clock(splits, step)) },
      {
        ...axis,
        size: widest,
        gap: 6,
        space: 32,
        grid: data.logarithmic ? { ...axis.grid, filter: (_plot, splits) => powersOfTen(splits) } : axis.grid,
        values: (_plot, splits) => splits.map((split) => (split === null ? "" : bare(say(split)))),
      },
    ],
    series: [
      {},
      ...data.series.map((series) => ({
        label: series.name,
        stroke: paints[series.paint],
        fill: series.fill ? faded(paints[series.paint], 12) : undefined,
        width: 1.5,
        dash: DASHES[series.dash],
        paths: series.tag ? () => null : series.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
        // A line needs two: a value between gaps is a dot.
        points: { show: true, size: data.axis ? 6 : 4, fill: paints[series.paint], filter: data.axis ? undefined : (plot, position) => lone(plot.data[position]) },
        spanGaps: false,
      })),
    ],
    hooks: { setLegend: [(plot) => tell(figure, data, plot.cursor.idx)] },
  };
}

class Drawing {
  constructor(figure) {
    this.figure = figure;
    this.box = figure.querySelector(".chart-plot");
    this.data = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
    this.draw();
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this.box);
  }

  get columns() {
    return [this.data.x, ...this.data.series.map((series) => series.values)];
  }

  draw() {
    this.plot?.destroy();
    this.plot = null;
    const isMeasured = this.data.series.some((series) => series.values.some((value) => value !== null));
    if (!isMeasured || this.box.clientWidth === 0) return;
    this.box.querySelector(".chart-nothing")?.remove();
    this.plot = new uPlot(options(this.figure, this.data, this.box), this.columns, this.box);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!this.plot) return this.draw();
    if (width && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  // One more moment. Only what changed is told, so every series takes what the page holds of it. A topic whose
  // moments matter tells the server's time as `now`, once per look, whether anything changed or not.
  append(changed, held) {
    const followed = this.data.series.filter((series) => series.live);
    if (!followed.some((series) => series.live in changed) && !(followed.length && "now" in changed)) return;
    const now = held.now ?? Date.now() / 1000;
    if (now <= this.data.x.at(-1)) return;
    const last = this.data.x.at(-1);
    // While nobody counted, nothing is known: the line breaks, as the server's does (releases.pages.traffic_charts).
    if (this.data.join && now - last > this.data.join) this.push(last + 1, () => null);
    // Coarse charts stay so: a new value takes the place of the last one until that one has lasted a step.
    if (this.live && this.data.step && this.kept !== undefined && now - this.kept < this.data.step) this.pop();
    else this.kept = now;
    this.live = true;
    this.push(now, (series) => held[series.live] ?? null);
    while (this.data.window && this.data.x[0] < now - this.data.window) {
      this.data.x.shift();
      for (const series of this.data.series) series.values.shift();
    }
    if (this.plot) this.plot.setData(this.columns);
    else this.draw();
    tell(this.figure, this.data, this.plot?.cursor.idx);
  }

  push(at, valueOf) {
    this.data.x.push(at);
    for (const series of this.data.series) series.values.push(valueOf(series));
  }

  pop() {
    this.data.x.pop();
    for (const series of this.data.series) series.values.pop();
  }

  end() {
    this.sizes.disconnect();
    this.plot?.destroy();
    drawn.delete(this);
  }
}

export function draw(figures) {
  for (const figure of figures) {
    if ("drawn" in figure.dataset) continue;
    figure.dataset.drawn = "";
    drawn.add(new Drawing(figure));
  }
}

const present = () => [...drawn].filter((drawing) => drawing.figure.isConnected || drawing.end());

new MutationObserver(() => present().forEach((drawing) => drawing.draw())).observe(document.documentElement, {
  attributes: true,
  attributeFilter: ["data-bs-theme"],
});

document.body.addEventListener("live:values", ({ detail }) => {
  if (detail.whole) return;
  for (const drawing of present()) {
    const topic = drawing.figure.closest("[data-live-topic]")?.dataset.liveTopic;
    if (topic === detail.topic) drawing.append(detail.values, detail.held);
  }
});
