"use strict";
// A person's newest values, to be read from across a room. It has no controls; what it shows is chosen by its address:
// kinds=glucose,weight  old=30m  theme=dark|light  dark=20:00-07:00  person=ID  language=de
const $ = id => document.getElementById(id);
const chosen = new URLSearchParams(location.search);

const order = ["glucose", "blood_pressure", "spo2", "heart_rate", "temperature", "weight", "hrv", "body_composition"];
const mostShown = 4, patience = 40000, pause = 3000, rest = 300000, burst = 200;
// How old a value may be before the display says so: a weight keeps for a week, others for a day.
const lifetimes = {weight: 7 * 86400, body_composition: 7 * 86400};
const durations = {m: 60, h: 3600, d: 86400};
const lifetime = (() => {
  const [, count, unit] = /^(\d{1,4})([mhd])$/.exec(chosen.get("old") ?? "") ?? [];
  return count ? count * durations[unit] : null;
})();
// The view, how far this clock is behind the gateway's, and since when the gateway has been silent.
let view = null, shift = 0, silentSince = null, hasEnded = false;
const now = () => Date.now() + shift;

// One request at a time: what changes meanwhile is asked for by the next one. One that failed is repeated until the gateway
// answers, since the stream may be well and bring nothing for hours.
let isAsking = false, isStale = false, retry = null;
async function refresh() {
  isStale = true;
  if (isAsking || hasEnded) return;
  isAsking = true;
  clearTimeout(retry);
  retry = null;
  try {
    while (isStale && !hasEnded) {
      isStale = false;
      await ask();
      if (isStale) await new Promise(resolve => setTimeout(resolve, burst));
    }
  } catch (error) {
    if (!hasEnded) failed(error);
  } finally {
    isAsking = false;
  }
}
async function ask() {
  // A connection that broke may never say so.
  const person = chosen.get("person"), over = new AbortController(), timer = setTimeout(() => over.abort(), patience);
  try {
    const answer = await (await call(addressed("/api/v1/view", person ? {person} : {}), {signal: over.signal})).json();
    if (hasEnded) return;
    view = answer;
  } finally {
    clearTimeout(timer);
  }
  shift = new Date(view.time) - Date.now();
  silentSince = null;
  draw();
}
function failed(error) {
  if ([401, 403, 404].includes(error.status)) return end();
  retry = setTimeout(refresh, waitAfter(error) ?? rest);
  // A gateway that says so can be reached.
  if (error.status === 423) { view = silentSince = null; return draw(t("locked")); }
  silentSince ??= now();
  draw();
}
// Nothing of anybody stays on the screen.
function end() {
  hasEnded = true;
  view = null;
  clearTimeout(retry);
  draw(t(viewer ? "link_ended" : "wall_closed"));
}

const zone = () => view?.time_zone ?? "UTC";
const format = (time, options) => new Intl.DateTimeFormat(locale, {...options, timeZone: zone()}).format(new Date(time));
const list = parts => new Intl.ListFormat(locale, {style: "short", type: "unit"}).format(parts.filter(Boolean));
function ago(seconds) {
  const minutes = Math.round(seconds / 60);
  return minutes < 1 ? t("just_now") : minutes < 60 ? t("minutes_ago", {n: minutes})
    : minutes < 2880 ? t("hours_ago", {n: Math.round(minutes / 60)}) : t("days_ago", {n: Math.round(minutes / 1440)});
}
function shown() {
  const wanted = chosen.get("kinds")?.split(",");
  const all = (view?.latest ?? []).filter(each => !wanted || wanted.includes(each.kind));
  const newest = wanted ? all : [...all].sort((a, b) => new Date(b.time) - new Date(a.time));
  return newest.slice(0, mostShown).sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}
function element(name, text, style) {
  const each = document.createElement(name);
  each.textContent = text;
  if (style) each.className = style;
  return each;
}
const reasonOf = over => over.reason === "by_person" ? over.note ?? t("by_person") : words(over.reason);
function card(each) {
  const section = document.createElement("section"), age = Math.max(0, (now() - new Date(each.time)) / 1000);
  const isOld = age > (lifetime ?? lifetimes[each.kind] ?? 86400);
  const text = each.beyond === "high" ? "HI" : each.beyond === "low" ? "LO" : digits(each.value), value = element("p", "", "value");
  // Pressures in kPa have more digits than there is room for at the size of others.
  value.append(element("span", text, text.length > 7 ? "long" : ""));
  if (each.unit && !each.beyond) value.append(element("small", " " + each.unit));
  section.className = isOld || silentSince !== null ? "old" : "";
  section.dataset.kind = each.kind;
  section.append(element("h2", list([t("kind_" + each.kind), each.source === "sensor" && t("source_sensor"), each.measure?.toUpperCase(), each.estimate && t("estimate")])), value,
    element("p", isOld ? t("wall_old", {ago: ago(age)}) : silentSince !== null ? t("wall_maybe_old", {ago: ago(age)}) : ago(age), "age"),
    element("p", list([format(each.time, {dateStyle: "medium", timeStyle: "short"}), each.pulse && t("wall_pulse", {pulse: digits(each.pulse)})]), "when"));
  if (each.passed_over) section.append(element("p", t("passed_over", {time: format(each.passed_over.time, {dateStyle: "medium", timeStyle: "short"}), reason: reasonOf(each.passed_over)}), "when"));
  return section;
}
// Dark in the evening and at night by the person's clocks, unless the address says otherwise.
function paint() {
  const theme = chosen.get("theme"), hours = /^(\d\d:\d\d)-(\d\d:\d\d)$/.exec(chosen.get("dark") ?? "") ?? [null, "19:00", "07:00"];
  const clock = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", timeZone: zone()}).format(new Date(now()));
  const isNight = hours[1] <= hours[2] ? clock >= hours[1] && clock < hours[2] : clock >= hours[1] || clock < hours[2];
  document.documentElement.dataset.theme = theme === "dark" || theme === "light" ? theme : isNight ? "dark" : "light";
}
function draw(said) {
  const cards = shown();
  paint();
  $("who").textContent = view?.person ?? "HealthRelay";
  $("values").dataset.count = cards.length;
  $("values").replaceChildren(...cards.map(card));
  const text = said ?? (silentSince !== null ? t("wall_silent", {time: format(silentSince, {timeStyle: "short"})})
    : view && !cards.length ? t("wall_nothing") : "");
  if ($("state").textContent !== text) $("state").textContent = text;
  if (view || said) document.documentElement.dataset.ready = "true";
}

// The stream says when something has changed, and by its heartbeat that the gateway is there.
async function listen() {
  while (!hasEnded) {
    const stream = new AbortController();
    let timer = null;
    const alive = () => { clearTimeout(timer); timer = setTimeout(() => stream.abort(), patience); };
    try {
      alive();
      const answer = await call("/api/v1/events", {signal: stream.signal});
      refresh();
      await eachLine(answer, line => {
        alive();
        if (hasEnded) stream.abort(); else if (/^event: (reading|left|pruned|erased|resync)$/.test(line)) refresh();
      });
    } catch (error) {
      if ([401, 403].includes(error.status)) end();
    }
    clearTimeout(timer);
    stream.abort();
    if (hasEnded) return;
    // A stream that ended may be that of a link that ended: the gateway says so, or is not there.
    if (retry === null) refresh();
    await new Promise(resolve => setTimeout(resolve, pause));
  }
}
// Ages grow without an event, and a value may go without one.
setInterval(() => { if (view) draw(); }, 15000);
setInterval(refresh, rest);
addEventListener("hashchange", () => location.reload());
wordsReady.then(listen);
