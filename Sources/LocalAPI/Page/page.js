"use strict";
const $ = id => document.getElementById(id);
const shown = 25, pageSize = 10000;
const words = name => name.replaceAll("_", " ");
let csrf = null, person = null, days = 1, rowsShown = shown;

// The session's token has two halves: a cookie, which no script reads and every port of this host is sent, and this
// key, which the browser keeps for this origin. Neither opens anything without the other.
const keyName = "healthrelay-session-key";
let key = null;
try { key = localStorage.getItem(keyName); } catch { /* storage is off: the session ends with the page */ }
function keepKey(text) {
  key = text;
  try { text ? localStorage.setItem(keyName, text) : localStorage.removeItem(keyName); } catch { /* as above */ }
}
// The one-time code of a link stands behind the #, and leaves the address as soon as the page has it.
let link = null;
function takeLink() {
  link = /^#([0-9a-f]{32})$/.exec(location.hash)?.[1] ?? null;
  if (link) history.replaceState(null, "", location.pathname);
}
takeLink();

// Numbers are shown with the digits the device sent, which JSON.parse would drop.
const parse = text => JSON.parse(text.replace(/"value":(-?[0-9.]+)/g, '"value":$1,"text":"$1"'));
const quantity = q => q ? `${q.text} ${q.unit}` : "–";
// Each kind in the page's order: its name, its main value and a lower one of the same moment, the unit of an empty chart, and
// within which time (in milliseconds) two readings are joined. Glucose and pressure are shown without readings too.
const kindsShown = {
  glucose: {title: "Glucose", main: r => r.glucose, unit: "mg/dL", joined: 3600000, always: true},
  blood_pressure: {title: "Blood pressure", main: r => r.blood_pressure.systolic, second: r => r.blood_pressure.diastolic, unit: "mmHg", always: true},
  heart_rate: {title: "Heart rate", main: r => r.heart_rate, unit: "bpm", joined: 90000},
  hrv: {title: "Heart-rate variability (RMSSD)", main: r => r.hrv.rmssd === null ? null : {value: r.hrv.rmssd, text: String(r.hrv.rmssd), unit: "ms"}, unit: "ms"},
  spo2: {title: "Oxygen saturation", main: r => r.spo2, unit: "%", joined: 90000},
  temperature: {title: "Temperature", main: r => r.temperature, unit: "°C", joined: 3600000},
  weight: {title: "Weight", main: r => r.weight, unit: "kg"},
  body_composition: {title: "Body fat", main: r => r.body_composition, unit: "%"},
};
const main = r => kindsShown[r.kind]?.main(r) ?? null;
// What another program sent and nobody interprets.
const kept = r => ["activity", "sleep", "other"].includes(r.kind) ? r[r.kind] : null;
const pulse = r => r.pulse ? `, pulse ${r.pulse.text}` : "";
const value = r => r.kind === "blood_pressure"
  ? `${r.blood_pressure.systolic?.text ?? "–"} / ${r.blood_pressure.diastolic?.text ?? "–"} ${r.blood_pressure.systolic?.unit ?? ""}` + pulse(r)
  : kept(r) ? `${kept(r).type} ${quantity(kept(r))}`
  : quantity(main(r)) + pulse(r);
const outcomes = {waiting: () => "on the way", handed_over: () => "handed over", delivered: () => "delivered", retracted: () => "taken back",
  refused: d => `refused: ${d.reason}`, held: d => `waits: ${words(d.reason)}`};
// With one destination its name says nothing.
const outcome = r => r.excluded ? `kept, not sent: ${words(r.excluded)}` : !r.deliveries.length ? "stored"
  : r.deliveries.map(d => (r.deliveries.length > 1 ? d.destination + ": " : "") + outcomes[d.state](d)).join("; ");
const isHeldUp = r => r.excluded || r.deliveries.some(d => d.state === "held" || d.state === "refused");
const moment = t => new Date(t).toLocaleString(undefined, {dateStyle: "medium", timeStyle: "short"});
const when = t => t ? moment(t) : "never";
const readingTime = r => r.time ? moment(r.time) : (r.device_time ?? "unknown").replace("T", " ");

class Refused extends Error {
  constructor(status, problem) { super(problem?.message ?? `status ${status}`); this.status = status; this.problem = problem; }
}
async function call(path, options = {}) {
  const headers = {...options.headers};
  if (key) headers["X-Session-Key"] = key;
  if (options.method && options.method !== "GET") { headers["Content-Type"] = "application/json"; if (csrf) headers["X-CSRF-Token"] = csrf; }
  const answer = await fetch(path, {...options, headers, credentials: "same-origin"});
  if (answer.ok) return answer;
  let problem = null;
  try { problem = (await answer.json()).error; } catch { /* no document came with it */ }
  throw new Refused(answer.status, problem);
}
const read = async path => parse(await (await call(path)).text());

function cell(row, text, name, label) {
  const td = document.createElement("td");
  td.textContent = text;
  if (name) td.className = name;
  if (label) td.dataset.name = label;
  row.append(td);
}
function readingRow(r) {
  const row = document.createElement("tr");
  cell(row, readingTime(r));
  cell(row, value(r), "value");
  cell(row, [r.device.model, r.device.address].filter(Boolean).join(" "), "quiet");
  cell(row, outcome(r), isHeldUp(r) ? "quiet" : "delivered");
  return row;
}

let asked = 0;
async function refreshReadings() {
  const mine = ++asked;
  const page = await read(`/api/v1/readings?limit=${Math.min(rowsShown, pageSize)}&series=false`);
  // The answer to a later question is newer, and may be longer.
  if (mine !== asked) return;
  $("readings").replaceChildren(...page.readings.map(readingRow));
  $("none").hidden = page.readings.length > 0;
  $("older").hidden = !page.more || rowsShown >= pageSize;
}
$("older").addEventListener("click", async () => {
  const first = $("readings").rows.length;
  rowsShown += shown;
  try { await refreshReadings(); } catch (error) { return failed(error); }
  const row = $("readings").rows[first];
  if (row) { row.tabIndex = -1; row.focus(); }
});

function card(title, big, unit, below, warn) {
  const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd"), note = document.createElement("dd");
  dt.textContent = title;
  dd.className = "big";
  dd.append(big);
  if (unit) { const small = document.createElement("small"); small.textContent = " " + unit; dd.append(small); }
  note.textContent = below;
  note.className = warn ? "warn" : "quiet";
  box.append(dt, dd, note);
  return box;
}
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
function ago(t) {
  const minutes = Math.round((Date.now() - new Date(t)) / 60000);
  return minutes < 1 ? "just now" : minutes < 60 ? plural(minutes, "minute") + " ago"
    : minutes < 2880 ? plural(Math.round(minutes / 60), "hour") + " ago" : plural(Math.round(minutes / 1440), "day") + " ago";
}

async function refreshGlance() {
  const [gateway, latest, devices, sync] = await Promise.all([
    read("/api/v1/gateway"), read("/api/v1/readings?series=false&latest=true"), read("/api/v1/devices"),
    // What waits is told for the whole household only.
    person === null ? read("/api/v1/sync") : {destinations: []}]);
  const of = kind => latest.readings.find(r => r.kind === kind);
  const glucose = of("glucose"), pressure = of("blood_pressure");
  const cards = [];
  if (glucose) cards.push(card("Last glucose", glucose.glucose?.text ?? "–", glucose.glucose?.unit, readingTime(glucose)));
  if (pressure) cards.push(card("Last blood pressure",
    `${pressure.blood_pressure.systolic?.text ?? "–"}/${pressure.blood_pressure.diastolic?.text ?? "–"}`,
    pressure.blood_pressure.systolic?.unit, readingTime(pressure)));
  const waiting = sync.destinations.flatMap(d => d.waiting.map(w => ({...w, destination: d.name})));
  const refused = sync.destinations.filter(d => d.refused.length);
  const held = waiting.filter(w => w.held).map(w => words(w.held));
  cards.push(card("Waiting for delivery", String(gateway.waiting), gateway.waiting === 1 ? "reading" : "readings",
    !gateway.delivers ? "no key for a server is set" : held.length ? [...new Set(held)].join(", ")
      : gateway.last_delivery ? `last delivered ${ago(gateway.last_delivery)}` : "nothing delivered yet", held.length > 0 && gateway.delivers));
  const failing = devices.devices.filter(d => d.last_contact?.error).length;
  const weak = devices.devices.filter(d => d.battery_percent !== null && d.battery_percent <= 15).length;
  cards.push(card("Devices", String(gateway.devices), "", failing ? `${plural(failing, "device")} could not be read` : weak ? `${plural(weak, "battery").replace("batterys", "batteries")} low`
    : gateway.devices ? "all in order" : "none yet", failing + weak > 0));
  $("glance").replaceChildren(...cards);
  refreshDevices(devices.devices);
  $("waiting").replaceChildren(...(waiting.length ? waiting.map(w => item(
    `${plural(w.count, words(w.kind) + " reading")} of ${w.provider} for ${w.destination}: ${w.held ? words(w.held) : "on the way"}`)) : [item("Nothing waits.")]),
    ...refused.map(d => item(`${plural(d.refused.length, "reading")} refused by ${d.name}.`)),
    ...sync.destinations.filter(d => d.left_behind.count).map(d => item(
      `${plural(d.left_behind.count, "reading")} excluded or erased here, and still at ${d.name}.`)));
}
function item(text) { const li = document.createElement("li"); li.textContent = text; return li; }

const clock = c => { const minutes = c ? Math.round(c.difference_seconds / 60) : 0; return !c ? "–" : Math.abs(c.difference_seconds) < 120 ? "right" : `${Math.abs(minutes)} min ${minutes > 0 ? "ahead" : "behind"}`; };
const contact = c => !c ? "none yet" : `${when(c.began)}: ` + (!c.ended ? "in progress, or interrupted" : c.error ? words(c.error) : c.complete ? "all came" : "records are missing");
function refreshDevices(devices) {
  $("devices").replaceChildren(...devices.map(d => {
    const row = document.createElement("tr");
    cell(row, [d.name, d.model, d.address].filter(Boolean).join(" "));
    cell(row, d.paired ? (d.proven ? "paired" : "paired, not proven yet") : "not paired", d.paired ? "" : "quiet", "Bond");
    cell(row, d.battery_percent === null ? "–" : d.battery_percent + " %", "", "Battery");
    cell(row, clock(d.clock), "", "Clock");
    cell(row, contact(d.last_contact), d.last_contact?.error ? "warn" : "quiet", "Last contact");
    return row;
  }));
  $("device-table").hidden = devices.length === 0;
  $("no-devices").hidden = devices.length > 0;
}

async function measured(kind, from) {
  const all = [];
  let cursor = null;
  do {
    const page = await read(`/api/v1/readings?types=${kind}&series=false&from=${from.toISOString()}&limit=${pageSize}` + (cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""));
    all.push(...page.readings);
    cursor = page.more ? page.cursor : null;
  } while (cursor && all.length < 5 * pageSize);
  return all.filter(r => r.time && !r.excluded).reverse();
}
// Of one unit in another: q.value × factor + offset.
const conversions = {
  "mmol/L mg/dL": [18.0156, 0], "mg/dL mmol/L": [1 / 18.0156, 0], "kPa mmHg": [7.500617, 0], "mmHg kPa": [1 / 7.500617, 0],
  "°F °C": [5 / 9, -160 / 9], "°C °F": [9 / 5, 32], "lb kg": [0.45359237, 0], "kg lb": [1 / 0.45359237, 0]};
function inUnit(q, unit) {
  if (!q) return null;
  if (q.unit === unit) return q.value;
  const conversion = conversions[`${q.unit} ${unit}`];
  return conversion ? +(q.value * conversion[0] + conversion[1]).toFixed(1) : null;
}
const figures = {};
function figure(kind) {
  if (!figures[kind]) { figures[kind] = document.createElement("figure"); figures[kind].id = "chart-" + kind; $("charts").append(figures[kind]); }
  return figures[kind];
}
async function refreshCharts(kinds) {
  const to = new Date(), from = new Date(to - days * 86400000);
  for (const kind of kinds) {
    const {title, second, joined, always, ...shown} = kindsShown[kind];
    const readings = await measured(kind, from), last = readings[readings.length - 1];
    const unit = (last && main(last)?.unit) ?? shown.unit;
    const points = readings.map(r => ({
      time: new Date(r.time), value: inUnit(main(r), unit), text: `${readingTime(r)}: ${value(r)}`,
      second: second ? inUnit(second(r), unit) : null})).filter(p => p.value !== null);
    if (!points.length && !always && !figures[kind]) continue;
    Chart.draw(figure(kind), {title, unit, from, to, days, points, joined: joined ?? 0});
    if (kind === "blood_pressure" && !figures[kind].querySelector(".legend")) {
      const legend = document.createElement("p"), high = document.createElement("b"), low = document.createElement("i");
      legend.className = "legend";
      high.textContent = "● systolic"; low.textContent = "○ diastolic";
      legend.append(high, "  ", low);
      figures[kind].append(legend);
    }
  }
}
for (const choice of document.querySelectorAll("#range input")) choice.addEventListener("change", () => { days = Number(choice.value); refreshSoon(); });

const eventsShown = ["reading", "left", "pruned", "erased", "sync", "connection", "resync"];
let kinds = [], pending = false, again = false, source = null;
async function refreshAll() {
  try {
    await Promise.all([refreshReadings(), refreshGlance(), refreshCharts(kinds)]);
    document.documentElement.dataset.ready = "true";
  } catch (error) { failed(error); }
}
// Readings come in bursts; the page is drawn anew once a burst.
function refreshSoon() {
  if (pending) { again = true; return; }
  pending = true;
  setTimeout(async () => { await refreshAll(); pending = false; if (again) { again = false; refreshSoon(); } }, 200);
}
function failed(error) {
  if (error instanceof Refused && error.status === 401) return begin();
  if (error instanceof Refused && error.status === 423) return say("The gateway's store is locked: its key is missing.");
  if (error instanceof Refused && error.status === 403) return say(error.message + ".");
  say("The gateway does not answer; trying again …");
}
function say(text) { if ($("state").textContent !== text) $("state").textContent = text; }
// Events by fetch: an EventSource cannot send the session's key.
async function listen() {
  source?.abort();
  const mine = source = new AbortController();
  const end = new Promise(resolve => mine.signal.addEventListener("abort", resolve));
  for (let last = null; source === mine && !mine.signal.aborted;) {
    try {
      const answer = await call("/api/v1/events", {signal: mine.signal, headers: last ? {"Last-Event-ID": last} : {}});
      say("Live: readings appear as they arrive.");
      refreshSoon();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", name = "";;) {
        const {value: part, done} = await reader.read();
        if (done) break;
        const lines = (rest + part).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (line.startsWith("id: ")) last = line.slice(4);
          else if (line.startsWith("event: ")) name = line.slice(7);
          else if (line === "" && name) { if (eventsShown.includes(name)) refreshSoon(); name = ""; }
        }
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) return begin();
    }
    if (mine.signal.aborted) return;
    say("The gateway does not answer; trying again …");
    await Promise.race([end, new Promise(resolve => setTimeout(resolve, 3000))]);
  }
}
async function begin() {
  let session;
  try { session = await read("/api/v1/session"); } catch { say("The gateway does not answer; trying again …"); return setTimeout(begin, 3000); }
  csrf = session.csrf_token;
  if (link && !session.signed_in) { const code = link; link = null; return signIn({link: code}); }
  link = null;
  $("sign-in").hidden = session.signed_in;
  $("content").hidden = !session.signed_in;
  $("sign-out").hidden = !session.signed_in || session.trusted;
  // The gateway refuses what a scope does not allow; the page does not offer it.
  person = session.person;
  $("whose").textContent = person === null ? "" : `Signed in for ${person}.`;
  $("whose").hidden = person === null;
  $("delivery").hidden = person !== null;
  $("pair-open").hidden = session.scope === "read";
  if (!session.signed_in) { source?.abort(); say("Not signed in."); $("code").focus(); document.documentElement.dataset.ready = "true"; return; }
  try { const {consent} = await read("/api/v1/gateway"); kinds = Object.keys(kindsShown).filter(kind => consent.includes(kind)); } catch (error) { return failed(error); }
  listen();
}
async function signIn(proof) {
  $("sign-in-error").textContent = "";
  try {
    const answer = await call("/api/v1/session", {method: "POST", body: JSON.stringify({...proof, name: navigator.userAgent.slice(0, 60)})});
    keepKey((await answer.json()).key);
    $("code").value = "";
  } catch (error) {
    await begin();
    $("sign-in-error").textContent = error.message;
    return $("code").select();
  }
  return begin();
}
$("sign-in-form").addEventListener("submit", event => { event.preventDefault(); signIn({code: $("code").value.trim()}); });
// A link that is opened where the page is open already changes nothing but what is behind the #.
addEventListener("hashchange", () => { takeLink(); if (link) begin(); });
$("sign-out").addEventListener("click", async () => { try { await call("/api/v1/session", {method: "DELETE"}); } finally { keepKey(null); begin(); } });
// Ages grow without an event.
setInterval(() => { if (!$("content").hidden && !document.hidden) refreshGlance().catch(failed); }, 60000);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !$("content").hidden) refreshSoon(); });
begin();
