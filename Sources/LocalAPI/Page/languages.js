"use strict";
// The languages that the pages have, each by its own name, with the locale of its numbers and dates. Digits are those that the
// meters show.
const languages = {
  en: {name: "English", locale: "en-GB"}, de: {name: "Deutsch", locale: "de"}, fr: {name: "Français", locale: "fr"},
  es: {name: "Español", locale: "es"}, ar: {name: "العربية", locale: "ar-u-nu-latn", isRightToLeft: true},
};
const languageName = "healthrelay-language";
const language = (() => {
  let kept = null;
  try { kept = localStorage.getItem(languageName); } catch { /* storage is off: the choice ends with the page */ }
  const wanted = [new URLSearchParams(location.search).get("language"), kept, ...(navigator.languages ?? []).map(each => each.split("-")[0])];
  return wanted.find(each => each && Object.hasOwn(languages, each)) ?? "en";
})();
function keepLanguage(name) {
  try { localStorage.setItem(languageName, name); } catch { /* storage is off: the choice ends with the page */ }
}
const languageOptions = () => Object.entries(languages).map(([name, each]) => {
  const option = new Option(each.name, name, name === spoken, name === spoken);
  option.lang = name;
  return option;
});
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
const catalogues = document.currentScript.dataset.catalogues;
const learn = name => (name === "en" ? Promise.resolve({}) : fetch(`${catalogues}${name}.json`).then(answer => answer.json()))
  .then(phrasesOfIt => speak(name, phrasesOfIt), () => speak("en", {}));
const wordsReady = learn(language)
  .then(() => document.readyState === "loading" ? new Promise(resolve => addEventListener("DOMContentLoaded", resolve)) : null)
  .then(() => { translate(); delete document.documentElement.dataset.loading; });

// Text of people and devices is set apart, so that it does not turn around what stands beside it.
const isolated = text => typeof text === "string" && document.documentElement.dir === "rtl" ? `\u2068${text}\u2069` : text;
// A value with its unit stands from left to right everywhere: 128 / 82 must not become 82 / 128.
const leftToRight = text => document.documentElement.dir === "rtl" ? `\u2066${text}\u2069` : text;
function phraseOf(name, places) {
  const phrase = catalogue[name] ?? phrases[name];
  return typeof phrase === "string" ? phrase : phrase[plurals.select(places.n)] ?? phrase.other;
}
function t(name, places = {}) {
  return phraseOf(name, places).replace(/\{(\w+)\}/g, (_, place) => isolated(places[place]));
}
// A name of the API in words.
const words = name => catalogue["code_" + name] ?? name.replaceAll("_", " ");
// Digits as a device sent them, with the language's decimal mark.
const digits = text => text.replaceAll(".", decimalMark);

// A sentence with elements in it: {0}, {1} … are their places.
const withElements = (text, elements) => text.split(/(\{\d\})/).map(part => /^\{\d\}$/.test(part) ? elements[Number(part[1])] : part);
// The elements whose words are a catalogue's. Their English stays, for another choice of language.
const english = new WeakMap();
function translate() {
  for (const each of document.querySelectorAll("[data-t]")) {
    if (!english.has(each)) {
      let count = 0;
      const text = [...each.childNodes].map(node => node.nodeType === Node.ELEMENT_NODE ? `{${count++}}` : node.data).join("");
      english.set(each, {text, within: [...each.children]});
    }
    const {text, within} = english.get(each);
    each.replaceChildren(...withElements(catalogue[each.dataset.t] ?? text, within));
  }
  for (const each of document.querySelectorAll("[data-t-label]")) {
    if (!english.has(each)) english.set(each, {text: each.getAttribute("aria-label")});
    each.setAttribute("aria-label", catalogue[each.dataset.tLabel] ?? english.get(each).text);
  }
}
