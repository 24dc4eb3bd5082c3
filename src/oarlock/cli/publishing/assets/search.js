"use strict";
// Finds kinds and fields in window.pages; what it shows is text, never markup.
(() => {
  const input = document.querySelector(".search input");
  const results = document.querySelector(".results");
  const most = 30;

  function rank(entry, words) {
    const name = entry[0].toLowerCase();
    const text = entry[2].toLowerCase();
    let sum = 0;
    for (const word of words) {
      const at = name.lastIndexOf(word);
      if (at >= 0) sum += at + word.length === name.length ? 4 : 2;
      else if (text.includes(word)) sum += 1;
      else return 0;
    }
    return sum;
  }

  function show() {
    results.replaceChildren();
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return;
    const found = window.pages.map((entry) => [rank(entry, words), entry]).filter(([sum]) => sum > 0);
    found.sort((a, b) => b[0] - a[0]);
    for (const [, [name, target, text]] of found.slice(0, most)) {
      const item = document.createElement("li");
      const anchor = document.createElement("a");
      anchor.href = target;
      anchor.textContent = name;
      const small = document.createElement("small");
      small.textContent = text;
      anchor.append(small);
      item.append(anchor);
      results.append(item);
    }
  }

  input.addEventListener("input", show);
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  show();
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
    if (event.key === "Escape") {
      input.value = "";
      show();
    }
  });
})();
