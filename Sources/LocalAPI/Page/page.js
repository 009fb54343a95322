"use strict";
const $ = id => document.getElementById(id);
const shown = 25, pageSize = 10000;
let rowsShown = shown, mayChange = false;
// Whom the session is for; null: the household. Whom of several the page shows, by which clocks and in which units; empty:
// whoever has no name. Whether that person was removed meanwhile.
let person = null, chosen = null, zone = "UTC", units = {}, isGone = false;
// What the page is asking. Whoever chooses another person or period ends it: no answer to an earlier question is shown.
let asking = new AbortController();
function askAnew() { asking.abort(); asking = new AbortController(); }

// The one-time code of a link stands behind the #, and leaves the address as soon as the page has it.
let link = null;
function takeLink() {
  viewer = linkSecret();
  link = /^#([0-9a-f]{32})$/.exec(location.hash)?.[1] ?? null;
  if (link) history.replaceState(null, "", location.pathname);
}
takeLink();

// Numbers are shown with the digits the device sent, which JSON.parse would drop.
const parse = text => JSON.parse(text.replace(/"value":(-?[0-9.]+)/g, '"value":$1,"text":"$1"'));
// A number in another unit: converted exactly and rounded once, half to even, as reports do it.
const ratios = {"mg/dL mmol/L": [10000n, 180156n], "mmol/L mg/dL": [180156n, 10000n], "mmHg kPa": [1000000n, 7500617n],
  "kPa mmHg": [7500617n, 1000000n], "kg lb": [100000000n, 45359237n], "lb kg": [45359237n, 100000000n]};
const usualPlaces = {"mg/dL": 0, mmHg: 0};
function inUnit(q, unit) {
  const [top, bottom] = q.unit === unit ? [1n, 1n] : ratios[`${q.unit} ${unit}`] ?? [];
  const [, whole, part = ""] = /^(\d+)(?:\.(\d+))?$/.exec(q.text) ?? [];
  if (!top || !whole) return q;
  const places = usualPlaces[unit] ?? 1, divisor = bottom * 10n ** BigInt(part.length);
  const dividend = BigInt(whole + part) * top * 10n ** BigInt(places), rest = dividend % divisor * 2n;
  let number = dividend / divisor;
  if (rest > divisor || rest === divisor && number % 2n === 1n) number++;
  const digits = String(number).padStart(places + 1, "0");
  return {...q, unit, text: places ? `${digits.slice(0, -places)}.${digits.slice(-places)}` : digits};
}
// In the person's unit, where the person has one. Ketone is no glucose: the factor between its units is another.
const own = (r, q) => q?.text && units[r.kind] && r.excluded !== "ketone" ? inUnit(q, units[r.kind]) : q;
const quantity = q => q ? leftToRight(`${digits(q.text)} ${q.unit}`) : "–";
// The main value of each kind.
const mains = {
  glucose: r => r.glucose, blood_pressure: r => r.blood_pressure.systolic, heart_rate: r => r.heart_rate,
  hrv: r => variability(r, "rmssd") ?? variability(r, "sdnn"),
  spo2: r => r.spo2, temperature: r => r.temperature, weight: r => r.weight, body_composition: r => r.body_composition,
};
// The measure has its name: RMSSD and SDNN are never compared.
const variability = (r, measure) => r.hrv[measure] === null ? null : {value: r.hrv[measure], text: String(r.hrv[measure]), unit: `ms (${measure.toUpperCase()})`};
const main = r => own(r, mains[r.kind]?.(r) ?? null);
// What another program sent and nobody interprets.
const kept = r => ["activity", "sleep", "other"].includes(r.kind) ? r[r.kind] : null;
function pressure(r) {
  const [systolic, diastolic] = [r.blood_pressure.systolic, r.blood_pressure.diastolic].map(each => own(r, each));
  return leftToRight(`${digits(systolic?.text ?? "–")} / ${digits(diastolic?.text ?? "–")} ${systolic?.unit ?? ""}`);
}
// HI and LO are what a meter shows instead of a number.
const beyond = r => r.status.includes("result_too_high") ? "HI" : r.status.includes("result_too_low") ? "LO" : null;
function value(r) {
  const text = r.kind === "blood_pressure" ? pressure(r) : kept(r) ? `${kept(r).type} ${quantity(kept(r))}`
    : r.kind === "glucose" && beyond(r) ? beyond(r) : quantity(main(r));
  return r.pulse ? t("with_pulse", {value: text, pulse: digits(r.pulse.text)}) : text;
}
const outcomeOf = d => t("delivery_" + d.state, {reason: d.state === "held" ? words(d.reason) : d.reason});
// With one destination its name says nothing.
const outcome = r => r.excluded ? t("excluded", {reason: words(r.excluded)}) : !r.deliveries.length ? t("stored")
  : r.deliveries.map(d => r.deliveries.length > 1 ? t("delivery_of", {destination: d.destination, outcome: outcomeOf(d)}) : outcomeOf(d)).join("; ");
const isHeldUp = r => r.excluded || r.deliveries.some(d => d.state === "held" || d.state === "refused");
// Days and times are those of the person, wherever the browser is.
const moment = time => new Intl.DateTimeFormat(locale, {dateStyle: "medium", timeStyle: "short", timeZone: zone}).format(new Date(time));
const dayOf = time => new Intl.DateTimeFormat("en-CA", {timeZone: zone}).format(time);
const when = time => time ? moment(time) : t("never");
const readingTime = r => r.time ? moment(r.time) : (r.device_time ?? t("unknown")).replace("T", " ");

// A path with its parameters, and the person that the page shows.
const place = (path, parameters = {}) => addressed(path, chosen === null ? parameters : {...parameters, person: chosen});
const named = name => name || t("the_user");
// A document; none once somebody has chosen otherwise.
async function read(path, {signal} = asking) {
  const text = await textOf(path, signal);
  signal.throwIfAborted();
  return parse(text);
}

// Names of models and of what sends readings; those that nobody has named are in words.
const generics = {generic_glucose: "glucose", generic_cgm: "glucose", generic_blood_pressure: "blood_pressure", generic_heart_rate: "heart_rate",
  generic_pulse_oximeter: "spo2", generic_thermometer: "temperature", generic_body_composition: "body_composition", generic_weight_scale: "weight"};
const modelName = model => model === "manual" ? t("model_manual") : model === "imported" ? t("model_imported")
  : generics[model] ? t("model_generic", {kind: t("kind_" + generics[model])}) : model?.replaceAll("_", " ");
const makers = {omron_ble: "Omron", beurer_ble: "Beurer", accuchek_ble: "Accu-Chek", contour_ble: "Contour", onetouch_ble: "OneTouch",
  freestyle_libre_ble: "FreeStyle Libre", apple_health_kit: "Apple Health", health_connect: "Health Connect"};
const providerName = provider => makers[provider] ?? (provider === "manual" ? t("provider_manual") : provider.replaceAll("_", " "));

function cell(row, text, name, label) {
  const td = document.createElement("td");
  td.textContent = text;
  if (name) td.className = name;
  if (label) td.dataset.name = label;
  row.append(td);
}
function readingRow(r) {
  const row = document.createElement("tr");
  row.tabIndex = -1;
  cell(row, readingTime(r));
  cell(row, value(r), "value");
  cell(row, [modelName(r.device.model), r.device.address].filter(Boolean).join(" "), "quiet free", t("device"));
  cell(row, [r.status.includes("questionable") && t("questionable"), r.entry?.note, r.left_out && (r.left_out.reason ? t("left_out_because", {reason: r.left_out.reason}) : t("left_out"))].filter(Boolean).join("; "), "free", t("note"));
  cell(row, outcome(r), isHeldUp(r) ? "quiet free" : "delivered free", t("delivery"));
  return row;
}

// Draws what an element holds anew. What has not changed stays where it is, with the focus and a screen reader's place.
function redraw(parent, children) {
  let at = parent.firstElementChild;
  const left = [...parent.children];
  for (const child of children) {
    const place = left.findIndex(each => each.isEqualNode(child));
    if (place < 0) { parent.insertBefore(child, at); continue; }
    for (const gone of left.splice(0, place)) gone.remove();
    at = left.shift().nextElementSibling;
  }
  for (const gone of left) gone.remove();
}

let listAsked = 0;
async function refreshReadings() {
  const mine = ++listAsked;
  let page;
  try {
    page = await read(place("/api/v1/readings", {limit: Math.min(rowsShown, pageSize), series: "false"}));
  } catch (error) {
    if (error.code === "no_consent") $("readings").replaceChildren();
    throw error;
  }
  // The answer to a later question is newer, and may be longer.
  if (mine !== listAsked) return;
  redraw($("readings"), page.readings.map(readingRow));
  $("none").hidden = page.readings.length > 0;
  $("older").hidden = !page.more || rowsShown >= pageSize;
}
$("older").addEventListener("click", async () => {
  const first = $("readings").rows.length;
  rowsShown += shown;
  try { await refreshReadings(); } catch (error) { return failed(error); }
  $("readings").rows[first]?.focus();
});

function card(title, big, unit, below, warn, more) {
  const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd"), note = document.createElement("dd");
  dt.textContent = title;
  dd.className = "big";
  dd.append(big);
  if (unit) { const small = document.createElement("small"); small.textContent = " " + unit; dd.append(small); }
  note.textContent = below;
  note.className = warn ? "warn" : "quiet";
  box.append(dt, dd, note);
  if (more) { const last = document.createElement("dd"); last.textContent = more; box.append(last); }
  return box;
}
function ago(time) {
  const minutes = Math.round((Date.now() - new Date(time)) / 60000);
  return minutes < 1 ? t("just_now") : minutes < 60 ? t("minutes_ago", {n: minutes})
    : minutes < 2880 ? t("hours_ago", {n: Math.round(minutes / 60)}) : t("days_ago", {n: Math.round(minutes / 1440)});
}

// The newest value of a kind that counts: what measured it, and whether a newer one is in no figure.
function newest(title, each) {
  const over = each.passed_over, reason = over && (over.reason === "by_person" ? over.note ?? t("by_person") : words(over.reason));
  const about = [moment(each.time), each.source && t("source_" + each.source), each.estimate && t("estimate")].filter(Boolean);
  return card(title, each.beyond === "high" ? "HI" : each.beyond === "low" ? "LO" : digits(each.value), each.beyond ? "" : each.unit, inList(about), false,
    over && t("passed_over", {time: moment(over.time), reason}));
}
const inList = parts => new Intl.ListFormat(locale, {style: "short", type: "unit"}).format(parts);
// By what values are shown may change while the page is open. Whether it has.
function heed(gateway) {
  const before = JSON.stringify([zone, units, consented]);
  [zone, units, consented] = [gateway.time_zone, gateway.units, gateway.consent];
  try { dayOf(new Date()); } catch { zone = "UTC"; /* a browser without this zone */ }
  return JSON.stringify([zone, units, consented]) !== before;
}
// Why no meter can be read, by the fault's code, with what somebody at the gateway can do about it.
const radioFaults = {
  no_adapter: () => t("radio_no_adapter"), bluetooth_lost: () => t("radio_lost"),
  adapter_powered_off: () => t("radio_off", {command: "bluetoothctl power on"}),
  adapter_blocked: () => t("radio_blocked", {command: "rfkill unblock bluetooth"}),
  no_bluetooth_service: () => t("radio_no_service", {command: "systemctl start bluetooth"}),
  bluetooth_not_permitted: () => t("radio_not_permitted", {command: "healthrelay doctor"}),
  no_system_bus: () => t("radio_fails", {command: "healthrelay doctor"}),
};
// What is said already is not read out again.
function tell(id, text) { if ($(id).textContent !== text) $(id).textContent = text; }
// What speaks against the clock of the gateway's machine, by the fault's reason. A clock that is wrong for sure can't be confirmed.
const clockFaults = {
  before_build: () => t("clock_unset", {command: "timedatectl set-ntp true"}),
  before_stored: () => t("clock_doubted", {command: "healthrelay store trust-clock"}),
};
Object.assign(clockFaults, {not_synchronised: clockFaults.before_build, jumped: clockFaults.before_stored});
function tellFaults(radio, clock) {
  tell("radio-fault", radio ? (radioFaults[radio.code] ?? radioFaults.no_system_bus)() : "");
  tell("clock-fault", clock ? (clockFaults[clock.reason] ?? clockFaults.before_stored)() : "");
  tellMeasure();
}
// The dialog that waits for a cuff stands before what the page says: no reading comes to it either.
function tellMeasure() { tell("measure-fault", $("state").textContent === t("silent") ? t("silent") : $("clock-fault").textContent || $("radio-fault").textContent); }
let glanceAsked = 0;
async function refreshGlance() {
  const mine = ++glanceAsked;
  const [gateway, view, devices, sync] = await Promise.all([
    read(place("/api/v1/gateway")), read(place("/api/v1/view")), read(place("/api/v1/devices")),
    // What waits for which reason is told for the whole household only.
    person === null ? read("/api/v1/sync") : {destinations: []}]);
  if (mine !== glanceAsked) return;
  if (heed(gateway)) { Reports.now(); refreshSoon(); }
  // Without a paired meter nobody waits for one.
  const isPaired = devices.devices.some(d => d.paired), isUnread = isPaired && !!(gateway.radio_fault ?? gateway.clock_fault);
  // A clock that is not trusted keeps from sensors, imports and entries, too.
  tellFaults(isPaired ? gateway.radio_fault : null, gateway.clock_fault);
  const of = kind => view.latest.find(each => each.kind === kind);
  const glucose = of("glucose"), last = of("blood_pressure"), cards = [];
  if (glucose) cards.push(newest(t("last_glucose"), glucose));
  if (last) cards.push(newest(t("last_pressure"), last));
  const waiting = sync.destinations.flatMap(d => d.waiting.map(w => ({...w, destination: d.name})));
  const refused = sync.destinations.filter(d => d.refused.length);
  // Whose readings are held is not told: of one person's the reason is known if all that waits in the household has the same.
  const reasons = new Set(gateway.waiting ? waiting.map(w => w.held) : []);
  const held = chosen === null || reasons.size === 1 ? [...reasons].filter(each => each).map(words) : [];
  cards.push(card(t("waiting"), String(gateway.waiting), t("readings_unit", {n: gateway.waiting}),
    !gateway.delivers ? t("no_key") : held.length ? held.join(", ")
      : gateway.last_delivery ? t("last_delivered", {ago: ago(gateway.last_delivery)}) : t("nothing_delivered"), held.length > 0 && gateway.delivers));
  const failing = devices.devices.filter(d => d.last_contact?.error).length;
  const weak = devices.devices.filter(d => d.battery_percent !== null && d.battery_percent <= 15).length;
  cards.push(card(t("devices"), String(gateway.devices), "", isUnread ? t("devices_unread") : failing ? t("devices_failing", {n: failing}) : weak ? t("batteries_low", {n: weak})
    : gateway.devices ? t("devices_well") : t("no_device"), isUnread || failing + weak > 0));
  redraw($("glance"), cards);
  refreshDevices(devices.devices);
  // In a household the person's counts come first; what waits where, and why, is everybody's.
  redraw($("waiting-own"), (chosen === null ? [] : [gateway.waiting ? t("own_waiting", {n: gateway.waiting, person: named(chosen)}) : t("own_nothing_waits", {person: named(chosen)}),
    gateway.refused && t("own_refused", {n: gateway.refused, person: named(chosen)})].filter(Boolean).map(item)));
  $("waiting-own").hidden = $("waiting-all").hidden = chosen === null;
  redraw($("waiting"), [...(waiting.length ? waiting.map(w => item(
    t("waits_for", {n: w.count, kind: words(w.kind), provider: providerName(w.provider), destination: w.destination, outcome: w.held ? words(w.held) : t("delivery_waiting")})))
    : [item(t("nothing_waits"))]),
    ...refused.map(d => item(t("refused_by", {n: d.refused.length, destination: d.name}))),
    ...sync.destinations.filter(d => d.left_behind.count).map(d => item(t("still_at", {n: d.left_behind.count, destination: d.name})))]);
}
function item(text) { const li = document.createElement("li"); li.textContent = text; return li; }

function clock(c) {
  if (!c) return "–";
  if (Math.abs(c.difference_seconds) < 120) return t("clock_right");
  const minutes = Math.round(c.difference_seconds / 60);
  return t(minutes > 0 ? "clock_ahead" : "clock_behind", {n: Math.abs(minutes)});
}
const contact = c => !c ? t("no_contact") : t(!c.ended ? "contact_goes_on" : c.error ? "contact_error" : c.complete ? "contact_complete" : "contact_gaps",
  {time: when(c.began), error: c.error ? words(c.error) : ""});
function refreshDevices(devices) {
  redraw($("devices"), devices.map(d => {
    const row = document.createElement("tr");
    cell(row, [d.name, modelName(d.model), d.address].filter(Boolean).join(" "), "free");
    cell(row, t(d.paired ? (d.proven ? "paired" : "paired_unproven") : "not_paired"), d.paired ? "" : "quiet", t("bond"));
    cell(row, d.battery_percent === null ? "–" : d.battery_percent + " %", "", t("battery"));
    cell(row, clock(d.clock), "", t("clock"));
    cell(row, contact(d.last_contact), d.last_contact?.error ? "warn" : "quiet", t("contact"));
    return row;
  }));
  $("device-table").hidden = devices.length === 0;
  $("no-devices").hidden = devices.length > 0;
}

const eventsShown = ["reading", "left", "pruned", "erased", "sync", "connection", "fault", "resync"];
let consented = [], pending = false, again = false, source = null;
// Whether the stream is there; whether the state tells of a request that failed, and what is done about it.
let isLive = false, isTroubled = false, retry = null, failures = 0;
async function refreshAll() {
  if (isGone || choosing) return;
  try {
    if (viewer) await Reports.soon(); else await Promise.all([refreshReadings(), refreshGlance(), Reports.soon()]);
    failures = 0;
    // What failed before is here now.
    if (isTroubled) { isTroubled = false; say(t(isLive ? "live" : "silent")); }
    document.documentElement.dataset.ready = "true";
  } catch (error) { failed(error); }
}
// Readings come in bursts; the page is drawn anew once a burst.
function refreshSoon() {
  if (pending) { again = true; return; }
  pending = true;
  setTimeout(async () => { await refreshAll(); pending = false; if (again) { again = false; refreshSoon(); } }, 200);
}
// Says what has failed. `next` is done again after a while: the stream may be well, and bring nothing for hours.
function failed(error, next = refreshSoon) {
  // Somebody has chosen otherwise.
  if (error.name === "AbortError") return;
  if (viewer && error instanceof Refused && error.status === 401) return ended();
  if (error instanceof Refused && error.status === 401) return begin();
  if (error instanceof Refused && error.code === "no_such_user") return gone();
  isTroubled = true;
  // A gateway that is slow, and not away, is not asked more often for it.
  const wait = waitAfter(error);
  doAgain(next, wait === null ? 60000 : Math.max(wait, Math.min(60000, 3000 * 2 ** failures)));
  failures += 1;
  if (error instanceof Refused && error.status === 423) return say(t("locked"));
  if (error instanceof Refused && error.status === 403) return say(error.message + ".");
  say(t("silent"));
}
function doAgain(next, wait) {
  clearTimeout(retry);
  retry = setTimeout(next, wait);
}
// Nothing of the person who was shown stays on the screen, and nobody's data is on its way.
function clear() {
  askAnew();
  clearTimeout(retry);
  choosing?.abort();
  choosing = null;
  // A dialog has readings of theirs, and would go on with another person's.
  for (const each of document.querySelectorAll("dialog[open]")) each.close();
  Reports.forget();
  for (const each of ["glance", "devices", "waiting-own", "waiting", "readings"]) $(each).replaceChildren();
  for (const each of ["device-table", "no-devices", "waiting-own", "waiting-all", "none", "older"]) $(each).hidden = true;
  rowsShown = shown;
}
// The person was removed. Who is left can be chosen.
async function gone() {
  const name = chosen;
  isGone = true;
  chosen = null;
  clear();
  entitle(null);
  // Whoever had no name has one now.
  if (name === "") return doAgain(() => show(null), 3000);
  await offerOthers(t("person_gone", {person: named(name ?? person)}));
}
async function offerOthers(text) {
  say(text);
  try { offer((await read("/api/v1/gateway", new AbortController())).people, null); } catch (error) { failed(error, () => offerOthers(text)); }
}
function say(text) {
  tell("state", text);
  tellMeasure();
}
// Events by fetch: an EventSource cannot send the session's key.
async function listen() {
  source?.abort();
  isLive = false;
  const mine = source = new AbortController();
  const end = new Promise(resolve => mine.signal.addEventListener("abort", resolve));
  for (let last = null; source === mine && !mine.signal.aborted;) {
    const stream = new AbortController(), stop = () => stream.abort();
    let timer = null;
    // The gateway says every 15 seconds that it is there. A connection that broke may never say so.
    const alive = () => { clearTimeout(timer); timer = setTimeout(stop, 40000); };
    mine.signal.addEventListener("abort", stop);
    try {
      alive();
      const answer = await call("/api/v1/events", {signal: stream.signal, headers: last ? {"Last-Event-ID": last} : {}});
      isLive = true;
      if (!isGone) say(t("live"));
      refreshSoon();
      let name = "", data = "";
      await eachLine(answer, line => {
        alive();
        if (line.startsWith("id: ")) last = line.slice(4);
        else if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data = line.slice(6);
        else if (line === "" && name) { if (name === "reading") Measure.notice(parse(data)); if (eventsShown.includes(name)) refreshSoon(); name = ""; }
      });
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) return viewer ? ended() : begin();
    } finally {
      clearTimeout(timer);
      mine.signal.removeEventListener("abort", stop);
      stop();
    }
    if (mine.signal.aborted) return;
    isLive = false;
    if (!isGone) say(t("silent"));
    await Promise.race([end, new Promise(resolve => setTimeout(resolve, 3000))]);
  }
}
// Nobody is signed in: nothing of anybody stays on the screen, nor who there is.
function leave() {
  source?.abort();
  clear();
  for (const each of ["content", "whose", "choice", "sign-out"]) $(each).hidden = true;
  $("whose").textContent = "";
  $("person").replaceChildren();
  say(t("signed_out"));
}
// A read-only link has ended: nothing of the person stays on the screen.
function ended() {
  source?.abort();
  clear();
  for (const each of ["content", "sign-in", "whose", "sign-out"]) $(each).hidden = true;
  say(t("link_ended"));
  document.documentElement.dataset.ready = "true";
}
// A read-only link shows figures and charts of one person over its days, and nothing else.
async function look(session) {
  const view = await read("/api/v1/view");
  [person, mayChange] = [view.person, false];
  heed({time_zone: view.time_zone, units: {}, consent: view.kinds});
  Reports.fix(session.link.days);
  isNewDay();
  for (const each of ["device-part", "delivery", "reading-part", "glance-part", "range", "own", "sign-in", "sign-out", "choice"]) $(each).hidden = true;
  $("content").hidden = false;
  $("whose").hidden = false;
  $("whose").textContent = t("link_shows", {person: view.person ?? t("the_user"), n: session.link.days, until: moment(session.link.until)});
  listen();
}
async function begin() {
  let session;
  try { session = await read("/api/v1/session"); } catch (error) { say(t("silent")); return doAgain(begin, waitAfter(error) ?? 3000); }
  if (viewer) {
    if (!session.link) return ended();
    try { return await look(session); } catch (error) { return failed(error, begin); }
  }
  csrf = session.csrf_token;
  if (link && !session.signed_in) { const code = link; link = null; return signIn({link: code}); }
  link = null;
  $("sign-in").hidden = session.signed_in;
  $("content").hidden = !session.signed_in;
  $("sign-out").hidden = !session.signed_in || session.trusted;
  // The gateway refuses what a scope does not allow; the page does not offer it.
  person = session.person;
  $("whose").textContent = person === null ? "" : t("signed_in_for", {person});
  $("whose").hidden = person === null;
  $("delivery").hidden = person !== null;
  mayChange = session.signed_in && session.scope !== "read";
  $("pair-open").hidden = session.scope === "read";
  if (!session.signed_in) { leave(); $("code").focus(); document.documentElement.dataset.ready = "true"; return; }
  try {
    await choose(chosen);
  } catch (error) {
    failed(error, begin);
    // Whoever is chosen meanwhile, or in place of a person who was removed, is shown as readings arrive.
    if (error.name !== "AbortError" && !isGone) return;
  }
  listen();
}
// The figures say whose they are, in a household.
function entitle(name) {
  $("charts-of").hidden = name === null;
  $("charts-person").textContent = name === null ? "" : named(name);
}
// The people whom a household can choose; none is chosen while the page shows nobody.
function offer(people, name) {
  $("choice").hidden = people.length < 2 && !isGone;
  $("person").replaceChildren(...(isGone ? [Object.assign(new Option(t("choose_person"), "", true, true), {disabled: true})] : []),
    ...people.map(each => new Option(named(each.id), each.id ?? "")));
  if (!isGone) $("person").value = name ?? "";
}
// Whom the page shows: a household has one of its people at a time. Until it is known who that is, nobody is shown: what is
// chosen here already may not be shown under the name of whoever was chosen before.
let choosing = null;
async function choose(name) {
  clear();
  entitle(name);
  const mine = choosing = new AbortController();
  const house = await read("/api/v1/gateway", mine), people = person === null ? house.people : [];
  isGone = false;
  chosen = people.length > 1 ? name ?? house.user ?? "" : null;
  offer(people, chosen);
  entitle(chosen);
  const gateway = chosen === null ? house : await read(place("/api/v1/gateway"), mine);
  choosing = null;
  heed(gateway);
  isNewDay();
}
async function show(name) {
  const wasGone = isGone;
  try { await choose(name); } catch (error) { return failed(error, () => show(name)); }
  if (wasGone) say(t(isLive ? "live" : "silent"));
  refreshAll();
}
$("person").addEventListener("change", () => show($("person").value));
async function signIn(proof) {
  $("sign-in-error").textContent = "";
  try {
    const answer = await call("/api/v1/session", {method: "POST", body: {...proof, name: navigator.userAgent.slice(0, 60)}});
    keepKey((await answer.json()).key);
    $("code").value = "";
  } catch (error) {
    await begin();
    $("sign-in-error").textContent = reasonFor(error);
    return $("code").select();
  }
  return begin();
}
$("sign-in-form").addEventListener("submit", event => { event.preventDefault(); signIn({code: $("code").value.trim()}); });
// A link that is opened where the page is open already changes nothing but what is behind the #.
addEventListener("hashchange", () => { const before = viewer; takeLink(); if (viewer !== before) location.reload(); else if (link) begin(); });
// At once, for whoever has the screen next: the gateway may not answer.
$("sign-out").addEventListener("click", async () => {
  const mine = key, over = new AbortController(), timer = setTimeout(() => over.abort(), shortAnswer);
  leave();
  keepKey(null);
  key = mine;
  try {
    await call("/api/v1/session", {method: "DELETE", signal: over.signal});
  } catch { /* without its key the session opens nothing */ } finally {
    clearTimeout(timer);
    key = null;
    begin();
  }
});
// Whether a day of the person's has begun since this was asked last.
let today = null;
function isNewDay() {
  const day = dayOf(new Date()), isNew = today !== null && day !== today;
  today = day;
  return isNew;
}
// Ages grow without an event, and at the person's midnight every period is another.
function passTime() {
  if ($("content").hidden || document.hidden || isGone || choosing) return;
  if (isNewDay()) { Reports.now(); refreshSoon(); return; }
  if (viewer) return;
  // The events of one person's session tell of no delivery.
  Promise.all([refreshGlance(), ...(person === null ? [] : [refreshReadings()])]).catch(failed);
}
setInterval(passTime, 60000);
document.addEventListener("visibilitychange", () => {
  if (document.hidden || $("content").hidden) return;
  if (isNewDay()) Reports.now();
  refreshSoon();
});
$("language").addEventListener("change", () => { keepLanguage($("language").value); location.reload(); });
wordsReady.then(() => { $("language").append(...languageOptions()); return begin(); });
