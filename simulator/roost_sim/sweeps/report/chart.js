// Line charts in SVG, drawn to the width there is, so that letters keep their size.

const MARGIN = { top: 10, right: 14, bottom: 42, left: 58 };
const DASHES = [null, "7 3", "2 3", "9 3 2 3"];
const LOG_TICKS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000, 31536000];
const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 432000, 604800, 1209600, 2592000, 7776000, 15552000, 31536000,
];

/** Colour and dash of the n-th policy: 28 that can be told apart. */
const strokeOf = (index) => ({ stroke: `var(--c${index % 7})`, "stroke-dasharray": DASHES[Math.floor(index / 7) % 4] });

function swatch(index) {
  const line = draw("line", { x1: 0, y1: 4, x2: 22, y2: 4, "stroke-width": 3, ...strokeOf(index) });
  return draw("svg", { class: "swatch", viewBox: "0 0 22 8", "aria-hidden": "true" }, line);
}

const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
const logarithmic = (low, high, from, to) => {
  const scale = linear(Math.log(low), Math.log(high), from, to);
  return (value) => scale(Math.log(Math.max(value, low)));
};

function niceTicks(high, count) {
  const rough = high / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= 0.8 * rough);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, index) => index * step);
}

function timeTicks(high, count) {
  const step = TIME_STEPS.find((size) => high / size <= count) ?? Math.ceil(high / count / 31536000) * 31536000;
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, index) => index * step);
}

function logTicks(low, high, scale) {
  const kept = [];
  for (const tick of LOG_TICKS) {
    if (tick < low || tick > high) continue;
    if (!kept.length || scale(tick) - scale(kept.at(-1)) > 48) kept.push(tick);
  }
  return kept;
}

/**
 * A chart of one line a policy.
 *
 * spec: {label, xLabel, yLabel, isLog, yMax, yText, lines: [{policy, index, points: [[x, y]]}], at(line, x) -> text}
 * shown: the set of policies to draw; the page shares it between charts.
 */
class LineChart {
  constructor(spec, shown) {
    Object.assign(this, { spec, shown, lit: null });
    this.node = make("div", { class: "chart" });
  }

  redraw(width) {
    const height = Math.round(Math.min(400, Math.max(240, width * 0.52)));
    this.frame = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
    this.#scales();
    this.cross = draw("line", { class: "cross off", y1: this.frame.top, y2: this.frame.bottom });
    this.svg = draw(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": this.spec.label,
        pointermove: (event) => this.#point(event), pointerleave: () => this.#leave(),
        keydown: (event) => this.#key(event), blur: () => this.#leave(),
      },
      this.#axes(), ...this.spec.lines.map((line) => this.#line(line)), this.cross,
    );
    this.node.replaceChildren(this.svg);
  }

  #visible() {
    const lines = this.spec.lines.filter((line) => this.shown.has(line.policy) && line.points.length);
    return lines.length ? lines : this.spec.lines.filter((line) => line.points.length);
  }

  #scales() {
    const { left, right, top, bottom } = this.frame;
    const points = this.#visible().flatMap((line) => line.points);
    const xs = points.map(([x]) => x);
    const positive = xs.filter((x) => x > 0);
    this.low = this.spec.isLog ? Math.max(Math.min(...positive, 1e9), 1e-3) : 0;
    this.high = Math.max(...xs, this.low * 1.01, 1e-9);
    this.top = this.spec.yMax ?? Math.max(...points.map(([, y]) => y), 1) * 1.05;
    this.x = (this.spec.isLog ? logarithmic : linear)(this.low, this.high, left, right);
    this.y = linear(0, this.top, bottom, top);
  }

  #axes() {
    const { left, right, top, bottom } = this.frame;
    const count = Math.max(2, Math.floor((right - left) / 90));
    const xTicks = this.spec.isLog ? logTicks(this.low, this.high, this.x) : timeTicks(this.high, count);
    const yTicks = niceTicks(this.top, 5);
    return draw(
      "g", {},
      ...yTicks.flatMap((tick) => [
        draw("line", { class: "grid", x1: left, x2: right, y1: this.y(tick), y2: this.y(tick) }),
        draw("text", { x: left - 8, y: this.y(tick) + 4, "text-anchor": "end" }, this.spec.yText(tick)),
      ]),
      ...xTicks.flatMap((tick) => [
        draw("line", { class: "grid", x1: this.x(tick), x2: this.x(tick), y1: top, y2: bottom }),
        draw("text", { x: this.x(tick), y: bottom + 17, "text-anchor": "middle" }, asTick(tick)),
      ]),
      draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      draw("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, this.spec.xLabel),
      draw("text", { x: -(top + bottom) / 2, y: 13, transform: "rotate(-90)", "text-anchor": "middle" }, this.spec.yLabel),
    );
  }

  #line(line) {
    const path = line.points.map(([x, y]) => `${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`).join("L");
    const classes = ["line"];
    if (!this.shown.has(line.policy)) classes.push("off");
    else if (this.lit) classes.push(this.lit === line.policy ? "lit" : "dim");
    return draw("path", { class: classes.join(" "), "data-policy": line.policy, d: path ? `M${path}` : "", ...strokeOf(line.index) });
  }

  light(policy) {
    if (!this.svg) return;
    this.lit = policy;
    for (const path of this.svg.querySelectorAll(".line")) {
      path.classList.toggle("lit", policy === path.dataset.policy);
      path.classList.toggle("dim", policy !== null && policy !== path.dataset.policy);
    }
  }

  #point(event) {
    const box = this.svg.getBoundingClientRect();
    const { left, right } = this.frame;
    const at = ((event.clientX - box.left) / box.width) * (right + MARGIN.right);
    this.#show(Math.min(right, Math.max(left, at)), event.clientX, event.clientY);
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const { left, right } = this.frame;
    const from = this.at ?? (left + right) / 2;
    const to = Math.min(right, Math.max(left, from + (step * (right - left)) / 40));
    const box = this.svg.getBoundingClientRect();
    this.#show(to, box.left + (to / (right + MARGIN.right)) * box.width, box.top + box.height / 3);
  }

  #show(at, clientX, clientY) {
    this.at = at;
    const { left, right } = this.frame;
    const share = (at - left) / (right - left);
    const x = this.spec.isLog ? this.low * (this.high / this.low) ** share : this.low + share * (this.high - this.low);
    this.cross.setAttribute("x1", at);
    this.cross.setAttribute("x2", at);
    this.cross.classList.remove("off");
    const rows = this.#visible().map((line) => [line.policy, this.spec.at(line, x)]);
    tip.show(clientX, clientY, asTime(x), rows);
  }

  #leave() {
    this.at = undefined;
    this.cross.classList.add("off");
    tip.hide();
  }
}
