"use strict";
// A chart of points in time as SVG: no library, no canvas, so that a screen reader and a keyboard reach it too.
const Chart = (() => {
  const space = "http://www.w3.org/2000/svg", height = 240;
  const edge = {left: 44, right: 12, top: 10, bottom: 26}, most = 600;

  function make(name, attributes, text) {
    const element = document.createElementNS(space, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  // Round numbers below, between and above the values.
  function scale(low, high, steps) {
    if (high - low < 1e-9) { low -= 1; high += 1; }
    const raw = (high - low) / steps, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw);
    const ticks = [];
    for (let tick = Math.floor(low / step) * step; tick < high + step * 0.999; tick += step) ticks.push(+tick.toFixed(6));
    return ticks;
  }

  // As many points as can be told apart: of each narrow strip the lowest and the highest.
  function thinned(points) {
    if (points.length <= most) return points;
    const kept = new Set(), strips = most / 2, begin = points[0].time, length = points[points.length - 1].time - begin || 1;
    const strip = new Map();
    points.forEach((point, index) => {
      const key = Math.floor((point.time - begin) / length * (strips - 1)), pair = strip.get(key);
      if (!pair) return strip.set(key, [index, index]);
      if (point.value < points[pair[0]].value) pair[0] = index;
      if (point.value > points[pair[1]].value) pair[1] = index;
    });
    for (const pair of strip.values()) pair.forEach(index => kept.add(index));
    return [...kept].sort((a, b) => a - b).map(index => points[index]);
  }

  function timeTicks(from, to, days, room) {
    const ticks = [], tick = new Date(from);
    if (days <= 1) { tick.setMinutes(0, 0, 0); } else { tick.setHours(0, 0, 0, 0); }
    const step = () => days <= 1 ? tick.setHours(tick.getHours() + 4) : tick.setDate(tick.getDate() + (days <= 7 ? 1 : 14));
    if (days <= 1) tick.setHours(Math.ceil(tick.getHours() / 4) * 4);
    for (; tick <= to; step()) if (tick >= from) ticks.push(new Date(tick));
    const every = Math.ceil(ticks.length / Math.max(2, Math.floor(room / 56)));
    return ticks.filter((_, index) => index % every === 0);
  }

  const tickText = (date, days) => days <= 1
    ? date.toLocaleTimeString(undefined, {hour: "2-digit", minute: "2-digit"})
    : days <= 7 ? date.toLocaleDateString(undefined, {weekday: "short", day: "numeric"})
    : date.toLocaleDateString(undefined, {day: "numeric", month: "short"});

  // points: [{time, value, second, text}], oldest first; second is a lower value of the same moment, or null.
  // The figure keeps its place and its focus when it is drawn anew.
  function draw(figure, options) {
    const {title, unit, from, to, days, joined} = options;
    const points = thinned(options.points);
    let svg = figure.querySelector("svg");
    if (!svg) {
      const caption = document.createElement("figcaption");
      caption.append(document.createElement("span"), document.createElement("output"));
      svg = make("svg", {role: "img", tabindex: "0"});
      figure.append(caption, svg);
      // As wide as its place, so that its text is as large as the page's on a phone too.
      new ResizeObserver(() => { if (Math.abs(svg.clientWidth - figure.drawn) > 8) draw(figure, figure.options); }).observe(svg);
    }
    const width = Math.max(svg.clientWidth, 240);
    const inner = {width: width - edge.left - edge.right, height: height - edge.top - edge.bottom};
    figure.options = options;
    figure.drawn = svg.clientWidth;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    figure.querySelector("figcaption span").textContent = `${title}, ${unit}`;
    const output = figure.querySelector("output");
    const values = points.flatMap(p => p.second === null ? [p.value] : [p.value, p.second]);
    const summary = points.length === 0 ? "no readings" :
      `${options.points.length} reading${options.points.length === 1 ? "" : "s"}, ${Math.min(...values)} to ${Math.max(...values)} ${unit}`;
    svg.setAttribute("aria-label", `${title}: ${summary}. Left and right arrow keys go through the readings.`);
    output.textContent = points.length === 0 ? "" : summary;
    svg.replaceChildren();
    const ticks = points.length ? scale(Math.min(...values), Math.max(...values), 4) : [];
    const low = ticks[0] ?? 0, high = ticks[ticks.length - 1] ?? 1;
    const x = time => edge.left + (time - from) / (to - from) * inner.width;
    const y = value => edge.top + (1 - (value - low) / (high - low)) * inner.height;
    for (const tick of ticks) {
      svg.append(make("line", {class: "grid", x1: edge.left, x2: width - edge.right, y1: y(tick), y2: y(tick)}),
        make("text", {x: edge.left - 6, y: y(tick) + 4, "text-anchor": "end"}, tick.toLocaleString()));
    }
    for (const tick of timeTicks(from, to, days, inner.width)) {
      const place = x(tick);
      if (place > width - edge.right - 8 || place < edge.left) continue;
      svg.append(make("line", {class: "grid", x1: place, x2: place, y1: edge.top + inner.height, y2: edge.top + inner.height + 5}),
        make("text", {x: place, y: height - 6, "text-anchor": "middle"}, tickText(tick, days)));
    }
    svg.append(make("line", {class: "grid", x1: edge.left, x2: width - edge.right, y1: edge.top + inner.height, y2: edge.top + inner.height}));
    if (points.length === 0) {
      svg.append(make("text", {x: width / 2, y: height / 2, "text-anchor": "middle"}, "No readings in this time"));
      svg.onkeydown = svg.onpointermove = svg.onblur = svg.onpointerleave = null;
      return;
    }
    if (joined) {
      // What is more than an hour apart is not joined: nobody measured what is between.
      let path = "", last = null;
      for (const point of points) {
        path += (last !== null && point.time - last <= joined ? "L" : "M") + x(point.time).toFixed(1) + " " + y(point.value).toFixed(1);
        last = point.time;
      }
      svg.append(make("path", {class: "line", d: path}));
    }
    const size = points.length > 150 ? 1.6 : points.length > 40 ? 2.6 : 4;
    for (const point of points) {
      if (point.second !== null) svg.append(make("line", {class: "span", x1: x(point.time), x2: x(point.time), y1: y(point.value), y2: y(point.second)}));
      svg.append(make("circle", {class: "point", cx: x(point.time).toFixed(1), cy: y(point.value).toFixed(1), r: size}));
      if (point.second !== null) svg.append(make("circle", {class: "point second", cx: x(point.time).toFixed(1), cy: y(point.second).toFixed(1), r: Math.max(size - 0.5, 1.5)}));
    }
    const cursor = make("line", {class: "cursor", y1: edge.top, y2: edge.top + inner.height, visibility: "hidden"});
    svg.append(cursor);
    let at = -1;
    function show(index) {
      at = Math.max(0, Math.min(points.length - 1, index));
      cursor.setAttribute("x1", x(points[at].time));
      cursor.setAttribute("x2", x(points[at].time));
      cursor.setAttribute("visibility", "visible");
      output.textContent = points[at].text;
    }
    function hide() { at = -1; cursor.setAttribute("visibility", "hidden"); output.textContent = summary; }
    svg.onkeydown = event => {
      const place = {ArrowLeft: at < 0 ? points.length - 1 : at - 1, ArrowRight: at < 0 ? 0 : at + 1, Home: 0, End: points.length - 1}[event.key];
      if (place !== undefined) { show(place); event.preventDefault(); } else if (event.key === "Escape") hide();
    };
    svg.onblur = hide;
    svg.onpointerleave = hide;
    svg.onpointermove = event => {
      const box = svg.getBoundingClientRect(), place = (event.clientX - box.left) / box.width * width;
      let best = 0;
      points.forEach((point, index) => { if (Math.abs(x(point.time) - place) < Math.abs(x(points[best].time) - place)) best = index; });
      show(best);
    };
  }
  return {draw};
})();
