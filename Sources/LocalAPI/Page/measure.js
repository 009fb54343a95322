"use strict";
// A guided measurement: five minutes of rest, readings a minute apart. The page counts a reading that a cuff measures when it is
// its turn, and judges none; about any other the person is asked.
const Measure = (() => {
  const rest = 300, pause = 60, patience = 180;
  // What is going on: null, "rest", "cuff", "pause" or "done"; when a timer ends, and since when it is the cuff's turn.
  let step = null, end = 0, began = 0, wanted = 2, counted = [], asked = [], ticking = null, waiting = null;

  const two = number => String(number).padStart(2, "0");
  function tell(text) { if ($("measure-state").textContent !== text) $("measure-state").textContent = text; }
  function clock() {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    $("measure-clock").textContent = `${Math.floor(left / 60)}:${two(left % 60)}`;
    if (left === 0) go("cuff");
  }

  function go(next) {
    step = next;
    clearInterval(ticking);
    clearTimeout(waiting);
    $("measure-hint").textContent = "";
    const waits = step === "rest" || step === "pause";
    if (waits) {
      end = Date.now() + (step === "rest" ? rest : pause) * 1000;
      ticking = setInterval(clock, 250);
      clock();
    }
    if (step === "cuff") {
      began = Date.now();
      waiting = setTimeout(remind, patience * 1000);
    }
    const isHeld = document.activeElement === $("measure-skip");
    $("measure-clock").hidden = $("measure-skip").hidden = !waits;
    if (isHeld && !waits) $("measure-stop").focus();
    $("measure-settings").hidden = $("measure-start").hidden = step !== null;
    $("measure-stop").textContent = t(step === null || step === "done" ? "close" : "measure_stop");
    sayStep();
  }
  // Where it is told why none can come, the cuff is not the reason.
  function remind() {
    if ($("measure-fault").textContent) waiting = setTimeout(remind, 5000); else $("measure-hint").textContent = t("measure_hint");
  }
  function sayStep() {
    tell(step === null ? "" : step === "rest" ? t("measure_rest") : step === "pause" ? t("measure_pause")
      : step === "cuff" ? t("measure_now", {n: counted.length + 1, wanted}) : t("measure_done", {n: counted.length}));
  }

  function reset() {
    [counted, asked] = [[], []];
    list();
    go(null);
  }

  // What is new is read out; what stays is not read again.
  function list() {
    const line = (r, text) => Object.assign(item(text), {id: "measured-" + r.id});
    redraw($("measure-readings"), [...counted.map(r => line(r, t("measure_reading", {time: readingTime(r), value: value(r)}))),
      ...asked.map(({reading: r, why}) => {
        const li = line(r, t(why, {time: readingTime(r), value: value(r), reason: r.excluded && words(r.excluded)}) + " ");
        if (why === "measure_unused") return li;
        const button = document.createElement("button");
        button.textContent = t("measure_count");
        button.addEventListener("click", () => {
          forget(r.id);
          count(r);
          ($("measure-skip").hidden ? $("measure-stop") : $("measure-skip")).focus();
        });
        li.append(button);
        return li;
      })]);
  }
  function forget(id) { asked = asked.filter(each => each.reading.id !== id); }

  function count(r) {
    counted.push(r);
    list();
    if (step === "cuff") go(counted.length < wanted ? "pause" : "done");
    else if (step === "pause" && counted.length >= wanted) go("done");
    else sayStep();
  }

  // A reading that was counted is taken back: it is the cuff's turn again if one is missing now.
  function drop(id) {
    const before = counted.length;
    counted = counted.filter(each => each.id !== id);
    forget(id);
    list();
    if (counted.length === before) return;
    if (step === "done" && counted.length < wanted) go("cuff"); else sayStep();
  }

  // Whether its time is that of the cuff's turn. Some cuffs know no seconds.
  function isOfNow(r) {
    const time = Date.parse(r.time), first = time % 60000 === 0 ? Math.floor(began / 60000) * 60000 : began - 2000;
    return time >= first && time <= Date.now() + 90000;
  }
  // Why a reading does not count by itself; null: it does.
  function doubt(r) {
    if (!r.device.address || r.entry) return "measure_typed";
    if (step !== "cuff") return "measure_early";
    return r.time && isOfNow(r) ? null : "measure_other";
  }
  // Whether a cuff has sent what can be no reading when one is waited for: its person has to know why none counts.
  const isUnused = r => step === "cuff" && r.device.address && !r.entry && (!r.time || isOfNow(r))
    && r.excluded && !["intermediate", "superseded", "withdrawn"].includes(r.excluded);

  function notice(r) {
    if (step === null || r.kind !== "blood_pressure") return;
    const whose = chosen ?? person, isTheirs = whose === null || (r.person ?? "") === whose;
    if (!isTheirs || r.excluded || r.left_out) {
      drop(r.id);
      if (isTheirs && isUnused(r)) { asked.push({reading: r, why: "measure_unused"}); list(); }
      return;
    }
    if (asked.some(each => each.reading.id === r.id && each.why === "measure_unused")) { forget(r.id); list(); }
    if (step === "done" || counted.some(each => each.id === r.id) || asked.some(each => each.reading.id === r.id)) return;
    const why = doubt(r);
    if (!why) return count(r);
    asked.push({reading: r, why});
    list();
  }

  $("measure-open").addEventListener("click", () => { reset(); $("measure").showModal(); });
  $("measure-start").addEventListener("click", () => {
    wanted = Number($("measure-count").value);
    go("rest");
    $("measure-skip").focus();
  });
  $("measure-skip").addEventListener("click", () => { go("cuff"); $("measure-stop").focus(); });
  $("measure-stop").addEventListener("click", () => $("measure").close());
  $("measure").addEventListener("close", reset);
  // A background tab's timers are slow; the end of a rest is a time of day.
  document.addEventListener("visibilitychange", () => { if (!document.hidden && (step === "rest" || step === "pause")) clock(); });
  return {notice};
})();
