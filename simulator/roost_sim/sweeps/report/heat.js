// How busy groups of nodes were over time: one small picture a policy.

/** Colours of a scale from --heat-low to --heat-high, as [red, green, blue]. */
function heatColours(count) {
  const style = getComputedStyle(document.documentElement);
  const ends = ["--heat-low", "--heat-high"].map((name) => {
    const text = style.getPropertyValue(name).trim();
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  });
  return Array.from({ length: count }, (_, index) => {
    const share = index / (count - 1);
    return ends[0].map((low, channel) => Math.round(low + share * (ends[1][channel] - low)));
  });
}

/** line: {policy, heat: [text of a group], heat_names, end_s}; digits: the letters of 0 to 1. */
class HeatStrip {
  constructor(line, digits) {
    Object.assign(this, { line, digits });
    this.canvas = make("canvas", {
      width: Math.max(1, line.heat[0]?.length ?? 1), height: Math.max(1, line.heat.length), role: "img",
      "aria-label": `Busy GPUs over time under ${line.policy}: ${asPercent(this.#mean())} on average`,
      pointermove: (event) => this.#point(event), pointerleave: () => tip.hide(),
    });
    this.node = make(
      "figure", {},
      make("figcaption", {}, make("span", {}, line.policy), make("span", {}, `${asPercent(this.#mean())} of ${asTime(line.end_s)}`)),
      this.canvas,
      make("div", { class: "ends", "aria-hidden": "true" }, make("span", {}, "0"), make("span", {}, asTime(line.end_s))),
    );
  }

  #share(row, column) {
    return this.digits.indexOf(this.line.heat[row][column]) / (this.digits.length - 1);
  }

  #mean() {
    const cells = this.line.heat.flatMap((text, row) => Array.from(text, (_, column) => this.#share(row, column)));
    return cells.reduce((sum, share) => sum + share, 0) / (cells.length || 1);
  }

  redraw() {
    const colours = heatColours(this.digits.length);
    const { width, height } = this.canvas;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(width, height);
    this.line.heat.forEach((text, row) => {
      for (let column = 0; column < width; column += 1) {
        image.data.set([...colours[this.digits.indexOf(text[column])], 255], 4 * (row * width + column));
      }
    });
    context.putImageData(image, 0, 0);
  }

  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    const part = (at, size, count) => Math.min(count - 1, Math.max(0, Math.floor((at / size) * count)));
    const row = part(event.clientY - box.top, box.height, this.canvas.height);
    const column = part(event.clientX - box.left, box.width, this.canvas.width);
    const [first, last] = this.line.heat_names[row];
    const at = ((column + 0.5) / this.canvas.width) * this.line.end_s;
    tip.show(event.clientX, event.clientY, first === last ? first : `${first} to ${last}`, [
      ["at", asTime(at)],
      ["GPUs busy", asPercent(this.#share(row, column))],
    ]);
  }
}
