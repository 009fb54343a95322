"use strict";
// Leaves a reading out of figures, and takes it back in: from the tables behind charts, for who may change readings.
const Figures = (() => {
  let ids = [], isLeftOut = false, isWarned = false, opener = null;
  const dialog = $("figure");

  // The cells that name their reading get a button each.
  function arm(section) {
    if (!mayChange) return;
    for (const cell of section.querySelectorAll("[data-reading]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "reading";
      button.append(...cell.childNodes);
      const said = document.createElement("span");
      said.className = "said";
      const out = "leftOut" in cell.dataset;
      said.textContent = " " + t(out ? "figure_include_this" : "figure_leave_out_this");
      button.append(said);
      button.addEventListener("click", () => open(cell, out));
      cell.append(button);
    }
    // Where a table has such cells, a line says what they are for.
    for (const table of section.querySelectorAll(".scroll:has([data-reading]:not([data-left-out]))")) {
      const help = document.createElement("p");
      help.className = "quiet help";
      help.textContent = t("figure_help");
      table.before(help);
    }
  }

  // The place of a value's button in its report, which has another button in its place when it is drawn anew.
  const buttons = (section, id) => [...section.querySelectorAll(`[data-reading="${id}"] > button`)];
  function placeOf(button) {
    const id = button.closest("[data-reading]")?.dataset.reading, section = button.closest("section");
    return id ? {section, id, at: buttons(section, id).indexOf(button)} : null;
  }
  // Whether it is there still.
  function goTo({section, id, at}) {
    const all = buttons(section, id), button = all[at] ?? all[0];
    button?.focus();
    return !!button;
  }

  function open(cell, out) {
    const row = cell.closest("tr"), title = rowBefore(row);
    opener = placeOf(cell.querySelector("button"));
    ids = [cell.dataset.reading];
    $("figure-what").textContent = [title, plain(cell)].filter(Boolean).join(": ");
    $("figure-reason").value = "";
    set(out, false);
    dialog.showModal();
    (out ? $("figure-include") : $("figure-reason")).focus();
  }
  // The value without the words that only readers hear.
  function plain(cell) {
    const copy = cell.cloneNode(true);
    for (const each of copy.querySelectorAll(".said, [aria-hidden]")) each.remove();
    return copy.textContent.trim();
  }
  // The row's heading; a day's later lines leave its date out.
  function rowBefore(row) {
    for (let each = row; each; each = each.previousElementSibling) if (each.querySelector("th")?.textContent) return each.querySelector("th").textContent;
    return "";
  }
  function set(out, isDone) {
    [isLeftOut, isWarned] = [out, false];
    $("figure-form").hidden = out;
    $("figure-include").hidden = !out;
    $("figure-include").textContent = t(isDone ? "figure_undo" : "figure_include");
    $("figure-state").textContent = out ? t(isDone ? "figure_is_out_now" : "figure_is_out") : isDone ? t("figure_counts_again") : "";
  }
  async function send(out, reason) {
    for (const each of dialog.querySelectorAll("button")) each.disabled = true;
    try {
      await call(place("/api/v1/readings/figures"), {method: "POST",
        body: {ids, left_out: out, ...(reason ? {reason} : {}), ...(out && !isWarned ? {expected: "counted"} : {})}});
      set(out, true);
      Reports.now();
      refreshSoon();
    } catch (error) {
      if (error instanceof Refused && error.status === 401) { dialog.close(); return failed(error); }
      if (error instanceof Refused && error.code === "left_out_meanwhile") await warn(reason); else $("figure-state").textContent = reasonFor(error);
    } finally {
      for (const each of dialog.querySelectorAll("button")) each.disabled = false;
      if (dialog.open) (isLeftOut ? $("figure-include") : $("figure-reason")).focus();
    }
  }
  // Somebody else was faster, with another reason. Both are shown; whoever sends again knows it.
  async function warn(reason) {
    isWarned = true;
    $("figure-include").hidden = false;
    $("figure-include").textContent = t("figure_include");
    let theirs = null;
    try { theirs = (await (await call(place("/api/v1/readings/" + ids[0]))).json()).left_out; } catch { /* only that there is one */ }
    const none = t("figure_no_reason");
    $("figure-state").textContent = t("figure_meanwhile", {by: theirs ? speaker(theirs.by) : "–", theirs: theirs?.reason ?? none, yours: reason || none});
    Reports.now();
    refreshSoon();
  }
  const speaker = name => name === "command" ? t("by_command") : name === "this machine" ? t("by_this_machine") : name;
  $("figure-form").addEventListener("submit", event => { event.preventDefault(); send(true, $("figure-reason").value.trim()); });
  $("figure-include").addEventListener("click", () => send(false));
  $("figure-close").addEventListener("click", () => dialog.close());
  // The button that opened it may be gone: whoever uses a keyboard would begin at the top of the page again.
  dialog.addEventListener("close", () => { if (document.activeElement === document.body || dialog.contains(document.activeElement)) goTo(opener); });
  return {arm, placeOf, goTo};
})();
