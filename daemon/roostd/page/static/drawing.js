// What draws GPUs, nodes and their links. No text becomes markup: elements are made one by one.
"use strict";

const [JOB, SM, MEMORY, TEMPERATURE, FAULT] = [0, 1, 2, 3, 4]; // as gpu_keys of the document
const NVLINK_SCORE = 100; // a pair with at least this many points has NVLink
const SWITCH_SCORE = 40; // and with this many a PCIe switch in common

/** An element with properties, children and text. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && name !== "role") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The colour class of a job: the same for one job everywhere, and over time. */
function jobClass(id) {
  let hash = 7;
  for (const letter of id) hash = (hash * 31 + letter.charCodeAt(0)) % 9973;
  return `held j${hash % 12}`;
}

function heatClass(percent) {
  if (percent === null) return "unknown";
  return `h${Math.max(0, Math.min(10, Math.round(percent / 10)))}`;
}

const VIEWS = {
  jobs: { title: "Jobs", of: (gpu) => (gpu[JOB] ? jobClass(gpu[JOB]) : "free") },
  load: { title: "Load", of: (gpu) => heatClass(gpu[SM]), low: "0 %", high: "100 % of the SMs" },
  memory: { title: "Memory", of: (gpu) => heatClass(gpu[MEMORY]), low: "empty", high: "full" },
  heat: {
    title: "Temperature",
    of: (gpu) => heatClass(gpu[TEMPERATURE] === null ? null : (gpu[TEMPERATURE] - 30) * 1.8),
    low: "30 °C", high: "85 °C",
  },
  links: {
    title: "Links",
    of: (gpu, quality) => {
      if (!gpu[JOB]) return "free";
      const part = quality.get(gpu[JOB]);
      if (part === undefined) return "alone";
      return part >= 0.999 ? "q3" : part >= 0.7 ? "q2" : part >= 0.4 ? "q1" : "q0";
    },
  },
};

function gpuClass(view, gpu, quality) {
  return gpu[FAULT] ? "bad" : VIEWS[view].of(gpu, quality);
}

function isUniform(pairs) {
  return pairs.length > 3 && pairs.every((pair) => pair[3] === pairs[0][3]);
}

/** A node's GPUs in a ring, with their links; links inside a job have its colour. */
function ring(node, table, view, quality) {
  const count = Math.max(node.gpus.length, 1), middle = 70, radius = count === 1 ? 0 : 50;
  const disc = count > 8 ? Math.min(12, 150 / count) : 13;
  const places = node.gpus.map((_, index) => {
    const angle = (2 * Math.PI * (index + 0.5)) / count - Math.PI / 2;
    return [middle + radius * Math.cos(angle), middle + radius * Math.sin(angle)];
  });
  const picture = draw("svg", { viewBox: "0 0 140 140", class: "ring", role: "img" });
  picture.setAttribute("aria-label", spoken(node, table));
  if (table) picture.append(...links(node, table, places, middle));
  node.gpus.forEach((gpu, index) => {
    const [x, y] = places[index];
    const mark = draw("g", { class: `gpu ${gpuClass(view, gpu, quality)}` },
      draw("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: disc }),
      draw("text", { x: x.toFixed(1), y: y.toFixed(1) }, String(index)));
    picture.append(mark);
  });
  return picture;
}

function links(node, [, pairs], places, middle) {
  const known = pairs.filter(([a, b]) => a < places.length && b < places.length);
  const parts = [];
  const line = (a, b, score, kind) => {
    const [x1, y1] = places[a].map((one) => one.toFixed(1)), [x2, y2] = places[b].map((one) => one.toFixed(1));
    const lanes = score >= NVLINK_SCORE ? score / NVLINK_SCORE : 0;
    const width = lanes ? Math.min(0.8 + lanes * 0.55, 3.6) : 1;
    return draw("line", { x1, y1, x2, y2, "stroke-width": width, class: `link ${lanes ? "" : "bus"} ${kind}` });
  };
  const inJob = (a, b) => node.gpus[a][JOB] && node.gpus[a][JOB] === node.gpus[b][JOB];
  if (isUniform(known) && known[0][3] >= NVLINK_SCORE) {
    node.gpus.forEach((gpu, index) => {
      const [x, y] = places[index].map((one) => one.toFixed(1));
      const mates = node.gpus.filter((other) => gpu[JOB] && other[JOB] === gpu[JOB]).length;
      const kind = mates > 1 ? jobClass(gpu[JOB]) : "";
      parts.push(draw("line", { x1: middle, y1: middle, x2: x, y2: y, "stroke-width": 2.4, class: `link ${kind}` }));
    });
    parts.push(draw("circle", { cx: middle, cy: middle, r: 15, class: "hub" }));
    parts.push(draw("text", { x: middle, y: middle, class: "hub-name" }, known[0][2]));
    return parts;
  }
  const shown = known.filter(([, , , score]) => score >= SWITCH_SCORE);
  for (const [a, b, , score] of shown) if (!inJob(a, b)) parts.push(line(a, b, score, ""));
  for (const [a, b, , score] of known) if (inJob(a, b)) parts.push(line(a, b, score, jobClass(node.gpus[a][JOB])));
  return parts;
}

function busyCount(node) {
  return node.gpus.filter((gpu) => gpu[JOB]).length;
}

function spoken(node, table) {
  const state = node.slurm_state || "unknown", linked = table ? "" : ", links unknown";
  return `${node.name}: ${state}, ${busyCount(node)} of ${node.gpus.length} GPUs in use${linked}`;
}

/** Seconds as people say them. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} m ${String(total % 60).padStart(2, "0")} s`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${String(Math.floor((total % 3600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(total / 86400)} d ${Math.floor((total % 86400) / 3600)} h`;
}

/** GPU indices as ranges: 0-2,5. */
function indices(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([low, high]) => (low === high ? low : `${low}-${high}`)).join(",");
}

function placeText(shares) {
  if (!shares.length) return "–";
  const same = shares.every((share) => indices(share.gpu_indices) === indices(shares[0].gpu_indices));
  if (same && shares.length > 2) return `${shares.length} nodes from ${shares[0].node}: ${indices(shares[0].gpu_indices)}`;
  return shares.map((share) => (share.gpu_indices.length ? `${share.node}:${indices(share.gpu_indices)}` : share.node)).join(", ");
}
