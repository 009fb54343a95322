"use strict";
// The languages that the page has, each by its own name, with the locale of its numbers and dates. Digits are those that the
// meters show.
const languages = {
  en: {name: "English", locale: "en-GB"}, de: {name: "Deutsch", locale: "de"}, fr: {name: "Français", locale: "fr"},
  es: {name: "Español", locale: "es"}, ar: {name: "العربية", locale: "ar-u-nu-latn", isRightToLeft: true},
};
// What the page says in English, in whole sentences; a catalogue of another language has the same names. What differs with a
// number has a form for each of the language's plural rules. The sentences of page.html and wall.html stand there.
const phrases = {
  live: "Live: readings appear as they arrive.",
  silent: "The gateway does not answer; trying again …",
  locked: "The gateway's store is locked: its key is missing.",
  signed_out: "Not signed in.",
  signed_in_for: "Signed in for {person}.",
  link_shows: {one: "Read-only: {person}, the last day, until {until}.", other: "Read-only: {person}, the last {n} days, until {until}."},
  link_ended: "This link has ended, or is not whole. Ask whoever gave it to you.",
  kind_glucose: "Glucose", kind_blood_pressure: "Blood pressure", kind_spo2: "Oxygen saturation", kind_heart_rate: "Heart rate",
  kind_temperature: "Temperature", kind_weight: "Weight", kind_hrv: "Heart-rate variability", kind_body_composition: "Body fat",
  wall_old: "Old: measured {ago}", wall_maybe_old: "Measured {ago}, or later", wall_pulse: "pulse {pulse}",
  wall_silent: "The gateway cannot be reached since {time}. There may be newer values.",
  wall_nothing: "Nothing has been measured yet.",
  wall_closed: "Nobody is signed in. Open this page with a read-only link (healthrelay link create), or sign in on the page first.",
  never: "never", unknown: "unknown", just_now: "just now",
  minutes_ago: {one: "{n} minute ago", other: "{n} minutes ago"},
  hours_ago: {one: "{n} hour ago", other: "{n} hours ago"},
  days_ago: {one: "{n} day ago", other: "{n} days ago"},
  with_pulse: "{value}, pulse {pulse}",
  delivery_waiting: "on the way", delivery_handed_over: "handed over", delivery_delivered: "delivered",
  delivery_retracted: "taken back", delivery_refused: "refused: {reason}", delivery_held: "waits: {reason}",
  delivery_of: "{destination}: {outcome}",
  excluded: "kept, not sent: {reason}", stored: "stored",
  last_glucose: "Last glucose", last_pressure: "Last blood pressure", waiting: "Waiting for delivery", devices: "Devices",
  readings_unit: {one: "reading", other: "readings"},
  no_key: "no key for a server is set", last_delivered: "last delivered {ago}", nothing_delivered: "nothing delivered yet",
  devices_failing: {one: "{n} device could not be read", other: "{n} devices could not be read"},
  batteries_low: {one: "{n} battery low", other: "{n} batteries low"},
  devices_well: "all in order", no_device: "none yet",
  waits_for: {one: "{n} {kind} reading of {provider} for {destination}: {outcome}",
    other: "{n} {kind} readings of {provider} for {destination}: {outcome}"},
  nothing_waits: "Nothing waits.",
  refused_by: {one: "{n} reading refused by {destination}.", other: "{n} readings refused by {destination}."},
  still_at: {one: "{n} reading excluded or erased here, and still at {destination}.",
    other: "{n} readings excluded or erased here, and still at {destination}."},
  clock_right: "right", clock_ahead: "{n} min ahead", clock_behind: "{n} min behind",
  no_contact: "none yet", contact_goes_on: "{time}: in progress, or interrupted", contact_error: "{time}: {error}",
  contact_complete: "{time}: all came", contact_gaps: "{time}: records are missing",
  paired: "paired", paired_unproven: "paired, not proven yet", not_paired: "not paired",
  bond: "Bond", battery: "Battery", clock: "Clock", contact: "Last contact", device: "Device", note: "Note", delivery: "Delivery",
  close: "Close", measure_stop: "Stop",
  measure_rest: "Rest until the timer ends. Don't talk.",
  measure_now: "Measure now: reading {n} of {wanted}. The page counts it when it arrives.",
  measure_pause: "It counts. Wait a minute before the next.",
  measure_done: {one: "Done: {n} reading counts.", other: "Done: {n} readings count."},
  measure_reading: "{time}: {value}",
  measure_other: "A reading of {time} came: {value}. Its time is not now; the cuff's clock may be wrong, or it is from its memory.",
  measure_count: "Count it",
  left_out: "left out of figures", left_out_because: "left out of figures: {reason}",
  figure_help: "Choose a value to leave its reading out of figures.",
  figure_leave_out_this: "leave out of figures", figure_include_this: "count again", figure_include: "Count again",
  figure_is_out: "It is left out of figures.", figure_is_out_now: "It is left out of figures now.", figure_undo: "Undo: count again",
  figure_counts_again: "It counts again.",
  the_user: "The gateway's user",
  pair_looking: "Looking for meters …", pair_none: "No meter was heard. Put it into its pairing mode and look again.",
  pair_offer: "{name}", pair_offer_model: "{name} ({model})",
  pair_in_mode: "{offer} – in its pairing mode", pair_already: "{offer} – paired already",
  pair_choose: "Choose …", pair_not_tried: "{name}, not tried with such a meter yet", pair_documents: "{name}, from documents only",
  pair_no_model: "None of these: read only what it sends by itself",
  pair_places: "{brand} meters keep their records in different places.",
  pair_not_in_mode: "{brand} meters keep their records in different places. This one is not in its pairing mode: hold its Bluetooth button until P blinks.",
  pair_with: "Pairing with {name} …", pair_digits: "The six digits that {name} shows",
  pair_comparison: "Does {name} show {digits}?",
  pair_without: "{name} wants to be paired without digits. Nothing then proves which device it is. Allow it?",
  pair_proven: "Paired, and the bond holds.", pair_unproven: "Paired. The bond will be tested when the meter is next heard.",
  download: "Download {form}", download_of: "Download {form} of {title}",
};
const languageName = "healthrelay-language";
const language = (() => {
  let kept = null;
  try { kept = localStorage.getItem(languageName); } catch { /* storage is off: the choice ends with the page */ }
  const wanted = [new URLSearchParams(location.search).get("language"), kept, ...(navigator.languages ?? []).map(each => each.split("-")[0])];
  return wanted.find(each => each && Object.hasOwn(languages, each)) ?? "en";
})();
let spoken = "en", locale = languages.en.locale, catalogue = {}, plurals = new Intl.PluralRules(locale), decimalMark = ".";
function speak(name, phrasesOfIt) {
  spoken = name;
  locale = languages[name].locale;
  catalogue = phrasesOfIt;
  plurals = new Intl.PluralRules(locale);
  decimalMark = new Intl.NumberFormat(locale).formatToParts(1.5).find(each => each.type === "decimal").value;
  document.documentElement.lang = name === "en" ? locale : name;
  document.documentElement.dir = languages[name].isRightToLeft ? "rtl" : "ltr";
}
// The page is shown when it has its words. A catalogue that does not come leaves the page in English.
document.documentElement.dataset.loading = "";
const wordsReady = (language === "en" ? Promise.resolve({}) : fetch(`/lang/${language}.json`).then(answer => answer.json()))
  .then(phrasesOfIt => speak(language, phrasesOfIt), () => speak("en", {}))
  .then(() => document.readyState === "loading" ? new Promise(resolve => addEventListener("DOMContentLoaded", resolve)) : null)
  .then(() => { translate(); delete document.documentElement.dataset.loading; });

// Text of people and devices is set apart, so that it does not turn around what stands beside it.
const isolated = text => typeof text === "string" && document.documentElement.dir === "rtl" ? `\u2068${text}\u2069` : text;
// A value with its unit stands from left to right everywhere: 128 / 82 must not become 82 / 128.
const leftToRight = text => document.documentElement.dir === "rtl" ? `\u2066${text}\u2069` : text;
function t(name, places = {}) {
  const phrase = catalogue[name] ?? phrases[name];
  const text = typeof phrase === "string" ? phrase : phrase[plurals.select(places.n)] ?? phrase.other;
  return text.replace(/\{(\w+)\}/g, (_, place) => isolated(places[place]));
}
// A name of the API in words.
const words = name => catalogue["code_" + name] ?? name.replaceAll("_", " ");
// Digits as a device sent them, with the language's decimal mark.
const digits = text => text.replace(".", decimalMark);

// The elements of the page whose words are a catalogue's. {0}, {1} … are the elements within them.
function translate() {
  for (const each of document.querySelectorAll("[data-t]")) {
    const text = catalogue[each.dataset.t];
    if (text === undefined) continue;
    const within = [...each.children];
    each.replaceChildren(...text.split(/(\{\d\})/).map(part => /^\{\d\}$/.test(part) ? within[Number(part[1])] : part));
  }
  for (const each of document.querySelectorAll("[data-t-label]")) {
    const text = catalogue[each.dataset.tLabel];
    if (text !== undefined) each.setAttribute("aria-label", text);
  }
}
