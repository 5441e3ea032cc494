"use strict";
// Numbers as text, and elements from text. Text only ever enters as text, never as markup.

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

const digits = (value, count = 3) => {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toLocaleString("en", {
    minimumFractionDigits: Math.max(0, count - Math.max(size, 1)),
    maximumFractionDigits: Math.max(0, count - Math.max(size, 1)),
  });
};

const timeUnit = (seconds) => UNITS.find(([size]) => Math.abs(seconds) >= size) ?? UNITS.at(-1);
const asTime = (seconds, unit = timeUnit(seconds)) => `${digits(seconds / unit[0])} ${unit[1]}`;
const asPercent = (frac) => `${(100 * frac).toFixed(1)} %`;
const asCount = (value) => (Math.abs(value) < 100 && value % 1 ? digits(value) : Math.round(value).toLocaleString("en"));
const asMilliseconds = (value) => `${digits(value)} ms`;
const asFactor = (value) => value.toFixed(2);
const asTick = (seconds) => {
  if (seconds === 0) return "0";
  const [size, name] = timeUnit(seconds);
  return `${Number((seconds / size).toFixed(2))} ${name}`;
};
const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: attributes with a null value are left off, functions become listeners. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

const tip = {
  node: () => document.getElementById("tip"),
  show(x, y, title, rows) {
    const node = this.node();
    node.replaceChildren(
      make("b", {}, title),
      ...rows.map(([name, value]) => make("div", {}, make("span", {}, name), make("span", {}, value))),
    );
    node.hidden = false;
    const { width, height } = node.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
    node.style.left = `${Math.max(4, left)}px`;
    node.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - height - 4))}px`;
  },
  hide() {
    this.node().hidden = true;
  },
};
