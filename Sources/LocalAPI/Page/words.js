"use strict";
// What the page says, in whole sentences: a catalogue of another language replaces these. What differs with a number has
// a form for each of the language's plural rules.
const phrases = {
  live: "Live: readings appear as they arrive.",
  silent: "The gateway does not answer; trying again …",
  locked: "The gateway's store is locked: its key is missing.",
  signed_out: "Not signed in.",
  signed_in_for: "Signed in for {person}.",
  link_shows: {one: "Read-only: {person}, the last day, until {until}.", other: "Read-only: {person}, the last {n} days, until {until}."},
  link_ended: "This link has ended, or is not whole. Ask whoever gave it to you.",
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
  download: "Download {form}", download_of: "Download {form} of {title}",
};
const locale = document.documentElement.lang;
const plurals = new Intl.PluralRules(locale);
function t(name, places = {}) {
  const phrase = phrases[name];
  const text = typeof phrase === "string" ? phrase : phrase[plurals.select(places.n)] ?? phrase.other;
  return text.replace(/\{(\w+)\}/g, (_, place) => places[place]);
}
