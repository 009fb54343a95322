"use strict";
// Figures and charts, as the gateway computes and draws them: the page asks for them and shows them.
const Reports = (() => {
  const all = [["bp", "blood_pressure"], ["glucose", "glucose"], ["sensor", "glucose"], ["weight", "weight"],
    ["heart_rate", "heart_rate"], ["hrv", "hrv"], ["spo2", "spo2"], ["temperature", "temperature"],
    ["body_composition", "body_composition"]];
  const onPaper = ["bp", "glucose", "sensor", "weight"];
  const shown = new Map();
  let period = {period: "14d"}, former = null, asked = 0, restUntil = 0, timer = null, isFixed = false;

  const path = (name, format) => place(`/api/v1/reports/${name}`, {...period, format, language: spoken});

  // A report as it is shown; null for one that the person no longer consents to, which keeps no other from being shown.
  async function fragment(name, signal) {
    try {
      return await textOf(path(name, "fragment"), signal);
    } catch (error) {
      if (error.code === "no_consent") return null;
      throw error;
    }
  }

  async function refresh() {
    const mine = ++asked, {signal} = asking, began = Date.now(), wanted = all.filter(each => consented.includes(each[1])).map(each => each[0]);
    $("reports").setAttribute("aria-busy", "true");
    try {
      const parts = await Promise.all(wanted.map(async name => [name, await fragment(name, signal)]));
      signal.throwIfAborted();
      // The answer to a later question is newer.
      if (mine !== asked) return;
      for (const [name] of [...shown]) if (!parts.some(part => part[0] === name && part[1] !== null)) remove(name);
      for (const [name, text] of parts) if (text !== null) show(name, text);
      former = null;
    } catch (error) {
      if (!(error instanceof Refused && error.status === 400)) throw error;
      if (mine !== asked || signal.aborted) return;
      $("range-error").textContent = error.message;
      // Days that cannot be meant leave those that were shown.
      if (former) { [period, former] = [former, null]; return refresh(); }
    } finally {
      if (mine === asked) $("reports").setAttribute("aria-busy", "false");
      // A strap sends a reading a second, and a year of a sensor takes the gateway a second: it gets its rest.
      restUntil = Date.now() + 5 * (Date.now() - began);
    }
    $("nothing").hidden = [...shown.values()].some(each => !each.section.hidden);
  }

  // Another period: nothing of the one before stays, and no late answer of it comes.
  function choose(next) {
    [former, period] = [former ?? period, next];
    $("range-error").textContent = "";
    askAnew();
    forget();
    refreshAll();
  }

  function remove(name) { shown.get(name).section.remove(); shown.delete(name); }

  // What has not changed stays as it is; what has changed keeps its open parts and its focus.
  function show(name, text) {
    const before = shown.get(name);
    if (before?.text === text) return;
    const section = before?.section ?? document.createElement("section");
    const content = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
    const open = [...section.querySelectorAll("details")].map(each => each.open);
    const focusable = "[tabindex], summary, button", held = [...section.querySelectorAll(focusable)].indexOf(document.activeElement);
    const place = held < 0 ? null : Figures.placeOf(document.activeElement);
    section.id = "report-" + name;
    section.setAttribute("aria-labelledby", content.querySelector("h2").id);
    section.hidden = content.dataset.empty === "true";
    section.replaceChildren(content);
    [...section.querySelectorAll("details")].forEach((each, index) => { each.open = open[index] ?? false; });
    Figures.arm(content);
    if (onPaper.includes(name)) content.append(downloads(name, content.querySelector("h2").textContent));
    if (!before) {
      const later = all.slice(all.findIndex(each => each[0] === name) + 1).map(each => shown.get(each[0])?.section).find(each => each);
      $("reports").insertBefore(section, later ?? null);
    }
    // A value that came meanwhile has moved the others.
    if (held >= 0 && !(place && Figures.goTo(place))) section.querySelectorAll(focusable)[held]?.focus();
    shown.set(name, {section, text});
  }

  function downloads(name, title) {
    const line = document.createElement("p");
    line.className = "downloads";
    for (const form of isFixed ? ["PDF", "HTML"] : ["PDF", "HTML", "CSV"]) {
      const button = document.createElement("button");
      button.className = "quiet";
      button.textContent = t("download", {form});
      button.setAttribute("aria-label", t("download_of", {form, title}));
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          const answer = await call(path(name, form.toLowerCase()));
          const link = document.createElement("a");
          link.download = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition"))?.[1] ?? name;
          link.href = URL.createObjectURL(await answer.blob());
          link.click();
          setTimeout(() => URL.revokeObjectURL(link.href), 60000);
        } catch (error) {
          failed(error);
          // It has answered, and says what is missing.
          if (error.problem && error.status >= 500) say(error.message + ".");
        } finally { button.disabled = false; }
      });
      line.append(button, " ");
    }
    return line;
  }

  // What is at a place of a chart: by arrow keys, or under the pointer.
  const plotOf = event => event.target.closest?.(".plot[data-marks]");
  const marksOf = plot => plot.marks ??= JSON.parse(plot.dataset.marks);
  function read(plot, index) {
    const marks = marksOf(plot), svg = plot.querySelector("svg");
    plot.at = Math.max(0, Math.min(marks.length - 1, index));
    let cursor = plot.querySelector(".cursor");
    if (!cursor) { cursor = document.createElement("span"); cursor.className = "cursor"; plot.append(cursor); }
    const left = marks[plot.at][0] / plot.dataset.width * svg.clientWidth;
    cursor.style.left = left + "px";
    if (left < plot.scrollLeft || left > plot.scrollLeft + plot.clientWidth) plot.scrollLeft = left - plot.clientWidth / 2;
    plot.parentElement.querySelector(".readout").textContent = marks[plot.at][1];
  }
  function leave(plot) {
    plot.at = undefined;
    plot.querySelector(".cursor")?.remove();
    plot.parentElement.querySelector(".readout").textContent = "";
  }
  $("reports").addEventListener("keydown", event => {
    const plot = plotOf(event);
    if (!plot) return;
    const last = marksOf(plot).length - 1, at = plot.at;
    const next = {ArrowLeft: at === undefined ? last : at - 1, ArrowRight: at === undefined ? 0 : at + 1, Home: 0, End: last}[event.key];
    if (next !== undefined) { read(plot, next); event.preventDefault(); } else if (event.key === "Escape") leave(plot);
  });
  $("reports").addEventListener("pointermove", event => {
    const plot = plotOf(event);
    if (!plot) return;
    const box = plot.querySelector("svg").getBoundingClientRect(), x = (event.clientX - box.left) / box.width * plot.dataset.width;
    const marks = marksOf(plot);
    let best = 0;
    marks.forEach((mark, index) => { if (Math.abs(mark[0] - x) < Math.abs(marks[best][0] - x)) best = index; });
    read(plot, best);
  });
  $("reports").addEventListener("pointerout", event => {
    const plot = plotOf(event);
    if (plot && !plot.contains(event.relatedTarget) && document.activeElement !== plot) leave(plot);
  });
  $("reports").addEventListener("focusout", event => { const plot = plotOf(event); if (plot) leave(plot); });

  for (const choice of document.querySelectorAll("#range input")) choice.addEventListener("change", () => {
    $("own").hidden = choice.value !== "own";
    if (choice.value === "own") {
      const today = dayOf(new Date());
      if (!$("to").value) { $("to").value = today; $("from").value = dayOf(new Date(Date.now() - 13 * 86400000)); }
      return $("from").focus();
    }
    choose({period: choice.value});
  });
  $("own").addEventListener("submit", event => {
    event.preventDefault();
    choose({from: $("from").value, to: $("to").value});
  });
  $("print").addEventListener("click", () => window.print());

  // When a burst of readings may be shown: not before the gateway had its rest.
  function soon() {
    const wait = restUntil - Date.now();
    if (wait <= 0) return refresh();
    timer ??= setTimeout(() => { timer = null; refresh().catch(failed); }, wait);
  }
  // A read-only link has its own days.
  function fix(days) {
    period = {period: days + "d"};
    isFixed = true;
  }
  // What somebody asks for at this page is shown at once.
  function now() { restUntil = 0; }
  function forget() {
    clearTimeout(timer);
    [restUntil, timer] = [0, null];
    asked++;
    for (const [name] of [...shown]) remove(name);
    $("nothing").hidden = true;
    $("reports").setAttribute("aria-busy", "false");
  }
  return {soon, now, fix, forget};
})();
