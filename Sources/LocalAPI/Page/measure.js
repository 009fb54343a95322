"use strict";
// A guided measurement: five minutes of rest, readings a minute apart. The page counts the readings that come from the cuff, and
// judges none.
const Measure = (() => {
  const rest = 300, pause = 60;
  // What is going on: null, "rest", "cuff", "pause" or "done"; when a timer ends, and since when a reading counts.
  let step = null, end = 0, began = 0, wanted = 2, counted = [], asked = [], ticking = null;

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
    const waits = step === "rest" || step === "pause";
    if (waits) {
      end = Date.now() + (step === "rest" ? rest : pause) * 1000;
      ticking = setInterval(clock, 250);
      clock();
    }
    if (step === "cuff" && !began) began = Date.now();
    $("measure-clock").hidden = $("measure-skip").hidden = !waits;
    $("measure-settings").hidden = $("measure-start").hidden = step !== null;
    $("measure-stop").textContent = t(step === null || step === "done" ? "close" : "measure_stop");
    tell(step === null ? "" : step === "rest" ? t("measure_rest") : step === "pause" ? t("measure_pause")
      : step === "cuff" ? t("measure_now", {n: counted.length + 1, wanted}) : t("measure_done", {n: counted.length}));
  }

  function reset() {
    [counted, asked, began] = [[], [], 0];
    list();
    go(null);
  }

  function list() {
    $("measure-readings").replaceChildren(...counted.map(r => item(t("measure_reading", {time: readingTime(r), value: value(r)}))),
      ...asked.map(r => {
        const li = item(t("measure_other", {time: readingTime(r), value: value(r)}) + " "), button = document.createElement("button");
        button.textContent = t("measure_count");
        button.addEventListener("click", () => { asked = asked.filter(each => each.id !== r.id); count(r); });
        li.append(button);
        return li;
      }));
  }

  function count(r) {
    counted.push(r);
    list();
    if (step === null || step === "done") return;
    go(counted.length < wanted ? "pause" : "done");
  }

  // A reading came. One of the person's cuff counts if its time is of this measurement; a cuff whose clock is wrong, or that
  // sends older readings from its memory, is asked about.
  function notice(r) {
    if (step === null || step === "done" || r.kind !== "blood_pressure" || r.excluded) return;
    const whose = chosen ?? person;
    if ((whose && r.person !== whose) || [...counted, ...asked].some(each => each.id === r.id)) return;
    const time = r.time ? Date.parse(r.time) : null, first = (began || Date.now()) - 90000;
    if (time !== null && time >= first && time <= Date.now() + 90000) return count(r);
    asked.push(r);
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
  $("measure").addEventListener("close", () => { clearInterval(ticking); step = null; });
  // A background tab's timers are slow; the end of a rest is a time of day.
  document.addEventListener("visibilitychange", () => { if (!document.hidden && (step === "rest" || step === "pause")) clock(); });
  return {notice};
})();
